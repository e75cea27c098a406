-- Fence out every earlier leader (L3). The ledger itself stays as it is until it is rebuilt.
-- KEYS  1 ledger
-- ARGV  1 epoch
-- Reply {"Done", incarnation or "", version} or {"Stale", incarnation, version} when the ledger
--       already knows a newer epoch
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'epoch', 'version')
local incarnation, epoch, version = known[1] or '', tonumber(known[2]) or 0, tonumber(known[3]) or 0
if epoch > tonumber(ARGV[1]) then return {'Stale', incarnation, version} end
redis.call('HSET', KEYS[1], 'incarnation', incarnation, 'epoch', ARGV[1], 'version', version + 1)
return {'Done', incarnation, version + 1}
