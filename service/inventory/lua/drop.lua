-- Give back named places of attempts that go on, each all or nothing (R1).
-- KEYS  1 ledger  2 held  3 room  4 holds        (2-4 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers
--       4 JSON [["unit/attempt", ["node.device", ...], {"node:cpus": n, "node:memory": n}], ...],
--         a hundred or so at most: nobody else is served meanwhile
-- Reply {version, "Done" | "Conflict", ...}, one answer for each in their order, or {version, "Stale"}
--   Done      the places are free (a lost device stays lost)
--   Conflict  the attempt does not hold one of the places, or not so much room; nothing changed for this one
--   Stale     another incarnation, epoch or version; nothing changed at all
-- Room is taken from the newest revisions first. A revision of which nothing is left is forgotten, the first
-- one excepted: the attempt still lives. The version is counted up by one for the call, whatever the
-- answers, so that calls behind it in a pipeline still match.
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  return {tonumber(known[3]) or -1, 'Stale'}
end

local function holds_all(revisions, places, room)
  local devices, amounts = {}, {}
  for _, entry in ipairs(revisions) do
    for _, place in ipairs(entry.devices) do devices[place] = true end
    for name, amount in pairs(entry.room) do amounts[name] = (amounts[name] or 0) + amount end
  end
  for _, place in ipairs(places) do
    if not devices[place] then return false end
  end
  for name, amount in pairs(room) do
    if (amounts[name] or 0) < amount then return false end
  end
  return true
end

local function without(entry, dropped, left)
  local devices, room = {}, {}
  for _, place in ipairs(entry.devices) do
    if not dropped[place] then devices[#devices + 1] = place end
  end
  for name, amount in pairs(entry.room) do
    local taken = math.min(amount, left[name] or 0)
    if taken > 0 then left[name] = left[name] - taken end
    if amount > taken then room[name] = amount - taken end
  end
  return {revision = entry.revision, devices = devices, room = room}
end

local function drop(attempt, places, room)
  local held = redis.call('HGET', KEYS[4], attempt)
  if not held then return 'Conflict' end
  local revisions = cjson.decode(held)
  if not holds_all(revisions, places, room) then return 'Conflict' end
  local dropped, left = {}, {}
  for _, place in ipairs(places) do
    dropped[place] = true
    redis.call('HDEL', KEYS[2], place)
  end
  for name, amount in pairs(room) do
    left[name] = amount
    redis.call('HINCRBY', KEYS[3], name, amount)
  end
  for at = #revisions, 1, -1 do
    local entry = without(revisions[at], dropped, left)
    if at > 1 and #entry.devices == 0 and next(entry.room) == nil then
      table.remove(revisions, at)
    else
      revisions[at] = entry
    end
  end
  redis.call('HSET', KEYS[4], attempt, cjson.encode(revisions))
  return 'Done'
end

local reply = {redis.call('HINCRBY', KEYS[1], 'version', 1)}
for _, wanted in ipairs(cjson.decode(ARGV[4])) do
  reply[#reply + 1] = drop(wanted[1], wanted[2], wanted[3])
end
return reply
