-- Replace published values, each as a whole, unless a newer cycle has published (P1, P2).
-- KEYS  1 fence  2.. the values to replace
-- ARGV  1 epoch  2 cycle  3.. the new values, in the order of the keys; an empty one deletes
-- Reply 1 when they were replaced, 0 when (epoch, cycle) is older than what is there
local known = redis.call('HMGET', KEYS[1], 'epoch', 'cycle')
local epoch, cycle = tonumber(known[1]) or -1, tonumber(known[2]) or -1
if epoch > tonumber(ARGV[1]) or (epoch == tonumber(ARGV[1]) and cycle > tonumber(ARGV[2])) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'cycle', ARGV[2])
for i = 2, #KEYS do
  if ARGV[i + 1] == '' then redis.call('DEL', KEYS[i]) else redis.call('SET', KEYS[i], ARGV[i + 1]) end
end
return 1
