-- Mark devices as lost, or as found again (X5).
-- KEYS  1 ledger  2 lost        (2 of one incarnation)
-- ARGV  1 incarnation  2 epoch  3 version that the caller remembers
--       4 JSON {"lost": ["node.device", ...], "found": ["node.device", ...]}
-- Reply {version, "Done" | "Stale"}; Done counts the version up, Stale changes nothing
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  return {tonumber(known[3]) or -1, 'Stale'}
end
local marks = cjson.decode(ARGV[4])
for _, place in ipairs(marks.lost) do redis.call('SADD', KEYS[2], place) end
for _, place in ipairs(marks.found) do redis.call('SREM', KEYS[2], place) end
return {redis.call('HINCRBY', KEYS[1], 'version', 1), 'Done'}
