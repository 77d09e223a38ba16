-- One client's window: a sorted set of admissions, member = id, score = microseconds since 1970.
-- This part comes first in each script. It sets `now`, which never runs backwards in a window.
local key = KEYS[1]
local WINDOW = 60000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
if last and last > now + 1000000 then
  -- The clock was set back. The window moves back with it, or it would stand still until the clock is there again.
  local back = last - now
  local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    redis.call('ZADD', key, string.format('%.0f', all[at + 1] - back), all[at])
  end
elseif last and last > now then
  now = last
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - WINDOW))
local counted = redis.call('ZCARD', key)
