-- One client's window: a sorted set of admissions, member = id, score = microseconds since 1970.
-- This part comes first in each script. It sets `now`, which never runs backwards in a window.
local key = KEYS[1]
local WINDOW = 60000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- What no admission can have written does not count, and goes: a value of another type, a score beyond any clock.
local newest = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
if newest.err then
  if not string.find(newest.err, 'WRONGTYPE', 1, true) then
    return newest
  end
  -- Removes it, and needs no further right.
  redis.call('PEXPIRE', key, 0)
end
local last = tonumber(newest[2])
if last and last >= 9007199254740992 then
  redis.call('ZREMRANGEBYSCORE', key, '9007199254740992', '+inf')
  last = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
end
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
local gone = redis.call('ZCOUNT', key, '-inf', string.format('%.0f', now - WINDOW))

-- Counts an admission, unless its id counts already. Returns 1 or 0.
local function count(id, stamp)
  local known = tonumber(redis.call('ZSCORE', key, id))
  if known and known > now - WINDOW then
    return 0
  end
  redis.call('ZADD', key, string.format('%.0f', stamp), id)
  return 1
end

-- Removes what no longer counts. It comes last: after another write a full Redis no longer refuses to add.
local function tidy()
  if gone > 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - WINDOW))
  end
end
