-- Put a rebuilt incarnation in the place of the present one, atomically (R4).
-- KEYS  1 ledger  2.. the parts of the new incarnation, then the parts of the old one
-- ARGV  1 new incarnation  2 epoch  3 first version  4 how many parts the new one has
-- Reply {"Done" | "Stale", version}; Stale when the ledger knows a newer epoch: nothing changed
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch')) or 0
if epoch > tonumber(ARGV[2]) then return {'Stale', -1} end
local parts = tonumber(ARGV[4])
for i = 2, #KEYS do
  if i <= 1 + parts then redis.call('PERSIST', KEYS[i]) else redis.call('UNLINK', KEYS[i]) end
end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'epoch', ARGV[2], 'version', ARGV[3])
return {'Done', tonumber(ARGV[3])}
