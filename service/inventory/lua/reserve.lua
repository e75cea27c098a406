-- Reserve exact places for one revision of one attempt, all or nothing (R1, R2).
-- KEYS  1 ledger  2 models  3 held  4 lost  5 room  6 holds        (2-6 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers
--       4 "unit/attempt"  5 revision
--       6 JSON {"devices": ["node.device", ...], "room": {"node:cpus": n, "node:memory": n}}
-- Reply {"Done" | "Conflict", version} or {"Stale", version}
--   Done      every place was free and is held now; version counted up
--   Conflict  a place is held, lost or unknown, room is short, or this revision is here already;
--             nothing changed; version counted up, so that calls behind it in a pipeline still match.
--             An amount of 0 needs no room: room is negative where a node shrank below what it runs
--   Stale     another incarnation, epoch or version; nothing changed
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  return {'Stale', tonumber(known[3]) or -1}
end
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
local wanted = cjson.decode(ARGV[6])

local before = redis.call('HGET', KEYS[6], ARGV[4])
local revisions = before and cjson.decode(before) or {}
for _, entry in ipairs(revisions) do
  if entry.revision == tonumber(ARGV[5]) then return {'Conflict', version} end
end
for _, place in ipairs(wanted.devices) do
  if redis.call('HEXISTS', KEYS[2], place) == 0
    or redis.call('HEXISTS', KEYS[3], place) == 1
    or redis.call('SISMEMBER', KEYS[4], place) == 1 then
    return {'Conflict', version}
  end
end
for name, amount in pairs(wanted.room) do
  local free = tonumber(redis.call('HGET', KEYS[5], name))
  if amount > 0 and (free == nil or free < amount) then return {'Conflict', version} end
end

for _, place in ipairs(wanted.devices) do redis.call('HSET', KEYS[3], place, ARGV[4]) end
for name, amount in pairs(wanted.room) do redis.call('HINCRBY', KEYS[5], name, -amount) end
table.insert(revisions, {revision = tonumber(ARGV[5]), devices = wanted.devices, room = wanted.room})
redis.call('HSET', KEYS[6], ARGV[4], cjson.encode(revisions))
return {'Done', version}
