-- Wake the admission cycle (J1).
-- KEYS  1 count of wake-ups  2 bell  3 wake flag
-- ARGV  1 how many pushes the bell keeps  2 what it says
-- Reply 1 if no job was on its way, so that the caller has to enqueue one; else 0
redis.call('INCR', KEYS[1])
redis.call('LPUSH', KEYS[2], ARGV[2])
redis.call('LTRIM', KEYS[2], 0, ARGV[1] - 1)
return redis.call('SET', KEYS[3], 1, 'NX') and 1 or 0
