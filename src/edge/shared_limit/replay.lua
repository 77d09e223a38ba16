-- ARGV: pairs of an id and the microseconds since its admission; -1: the request was not admitted after all.
-- An id that is known already counts once, with its first stamp. Returns how many ids were new.
local added = 0
for at = 1, #ARGV, 2 do
  local id, age = ARGV[at], tonumber(ARGV[at + 1])
  if age < 0 then
    redis.call('ZREM', key, id)
  elseif age < WINDOW then
    added = added + count(id, now - age)
  end
end
tidy()
redis.call('PEXPIRE', key, 61000)
return added
