-- ARGV[1]: quota. ARGV[2]: the id of the request; empty: only look.
-- Returns: 1 admitted, 0 refused; how many admissions count now; microseconds until the oldest one leaves (until the next
-- request is admitted, if this one is refused); the stamp of the decision.
local quota, id = tonumber(ARGV[1]), ARGV[2]
local counted = redis.call('ZCARD', key) - gone
local nth = 0
local admitted = 1
if counted >= quota then
  nth = counted - quota
  admitted = 0
elseif id ~= '' then
  counted = counted + count(id, now)
  redis.call('PEXPIRE', key, 61000)
end
tidy()
local leaves = tonumber(redis.call('ZRANGE', key, nth, nth, 'WITHSCORES')[2])
if not leaves then
  return {admitted, counted, 0, now}
end
return {admitted, counted, leaves + WINDOW - now, now}
