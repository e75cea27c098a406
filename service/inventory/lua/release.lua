-- Give back all that one attempt holds, every revision of it (R1, R5).
-- KEYS  1 ledger  2 held  3 room  4 holds        (2-4 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers  4 "unit/attempt"
-- Reply {"Done" | "Conflict", version} or {"Stale", version}
--   Done      its places are free (a lost device stays lost); version counted up
--   Conflict  the attempt holds nothing here, or a place has another holder; nothing changed;
--             version counted up
--   Stale     another incarnation, epoch or version; nothing changed
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  return {'Stale', tonumber(known[3]) or -1}
end
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
local held = redis.call('HGET', KEYS[4], ARGV[4])
if not held then return {'Conflict', version} end
local revisions = cjson.decode(held)
for _, entry in ipairs(revisions) do
  for _, place in ipairs(entry.devices) do
    if redis.call('HGET', KEYS[2], place) ~= ARGV[4] then return {'Conflict', version} end
  end
end
for _, entry in ipairs(revisions) do
  for _, place in ipairs(entry.devices) do redis.call('HDEL', KEYS[2], place) end
  for name, amount in pairs(entry.room) do redis.call('HINCRBY', KEYS[3], name, amount) end
end
redis.call('HDEL', KEYS[4], ARGV[4])
return {'Done', version}
