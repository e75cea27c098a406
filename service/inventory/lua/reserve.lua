-- Reserve exact places for one revision of each of some attempts, each all or nothing (R1, R2).
-- KEYS  1 ledger  2 models  3 held  4 lost  5 room  6 holds        (2-6 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers
--       4 JSON [["unit/attempt", revision, ["node.device", ...], {"node:cpus": n, "node:memory": n}], ...],
--         a hundred or so at most: nobody else is served meanwhile
-- Reply {version, "Done" | "Conflict", ...}, one answer for each in their order, or {version, "Stale"}
--   Done      every place was free and is held now
--   Conflict  a place is held, lost or unknown, room is short, or this revision is here already;
--             nothing changed for this one. An amount of 0 needs no room: room is negative where a node
--             shrank below what it runs
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

local function is_free(places)
  for from, to in slices(places) do
    local models = redis.call('HMGET', KEYS[2], unpack(places, from, to))
    local holders = redis.call('HMGET', KEYS[3], unpack(places, from, to))
    local lost = redis.call('SMISMEMBER', KEYS[4], unpack(places, from, to))
    for i = 1, to - from + 1 do
      if not models[i] or holders[i] or lost[i] == 1 then return false end
    end
  end
  return true
end

local function has_room(room)
  for name, amount in pairs(room) do
    local free = tonumber(redis.call('HGET', KEYS[5], name))
    if amount > 0 and (free == nil or free < amount) then return false end
  end
  return true
end

local function reserve(attempt, revision, places, room)
  local before = redis.call('HGET', KEYS[6], attempt)
  local revisions = before and cjson.decode(before) or {}
  for _, entry in ipairs(revisions) do
    if entry.revision == revision then return 'Conflict' end
  end
  if not is_free(places) or not has_room(room) then return 'Conflict' end
  local holders = {}
  for _, place in ipairs(places) do
    holders[#holders + 1] = place
    holders[#holders + 1] = attempt
  end
  for from, to in slices(holders) do redis.call('HSET', KEYS[3], unpack(holders, from, to)) end
  for name, amount in pairs(room) do redis.call('HINCRBY', KEYS[5], name, -amount) end
  table.insert(revisions, {revision = revision, devices = places, room = room})
  redis.call('HSET', KEYS[6], attempt, cjson.encode(revisions))
  return 'Done'
end

local reply = {redis.call('HINCRBY', KEYS[1], 'version', 1)}
for _, wanted in ipairs(cjson.decode(ARGV[4])) do
  reply[#reply + 1] = reserve(wanted[1], wanted[2], wanted[3], wanted[4])
end
return reply
