-- Give back all that some attempts hold, every revision of each (R1, R5).
-- KEYS  1 ledger  2 held  3 room  4 holds        (2-4 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers
--       4 JSON ["unit/attempt", ...], a hundred or so at most: nobody else is served meanwhile
-- Reply {version, "Done" | "Conflict", ...}, one answer for each in their order, or {version, "Stale"}
--   Done      its places are free (a lost device stays lost)
--   Conflict  the attempt holds nothing here, or a place has another holder; nothing changed for this one
--   Stale     another incarnation, epoch or version; nothing changed at all
-- The version is counted up by one for the call, whatever the answers, so that calls behind it in a
-- pipeline still match.
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  return {tonumber(known[3]) or -1, 'Stale'}
end

-- A gang may have more places than a call takes arguments: from, to of each slice.
local function slices(list)
  local from = 1 - 1000
  return function()
    from = from + 1000
    if from <= #list then return from, math.min(from + 999, #list) end
  end
end

local function is_holder(attempt, places)
  for from, to in slices(places) do
    for _, holder in ipairs(redis.call('HMGET', KEYS[2], unpack(places, from, to))) do
      if holder ~= attempt then return false end
    end
  end
  return true
end

local function release(attempt)
  local held = redis.call('HGET', KEYS[4], attempt)
  if not held then return 'Conflict' end
  local revisions = cjson.decode(held)
  for _, entry in ipairs(revisions) do
    if not is_holder(attempt, entry.devices) then return 'Conflict' end
  end
  for _, entry in ipairs(revisions) do
    for from, to in slices(entry.devices) do redis.call('HDEL', KEYS[2], unpack(entry.devices, from, to)) end
    for name, amount in pairs(entry.room) do redis.call('HINCRBY', KEYS[3], name, amount) end
  end
  redis.call('HDEL', KEYS[4], attempt)
  return 'Done'
end

local reply = {redis.call('HINCRBY', KEYS[1], 'version', 1)}
for _, attempt in ipairs(cjson.decode(ARGV[4])) do
  reply[#reply + 1] = release(attempt)
end
return reply
