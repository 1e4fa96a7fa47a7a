-- One sync of one instance about one dependency. All that it keeps expires by itself.
--
-- KEYS  1 hash: what was finished, by slice of time and by what came of it   2 level of the bucket
--       3 hash: what of each instance has been added already
-- ARGV  1 instance   2 ordinal of its sync   3-5 finished by it so far: successes, failures, slow
--       6-8 of these, what it knows to be added   9 length of a slice in us, 0 = no breaker   10 slices in a window
--       11 net change of the bucket by it so far   12 of this, what it knows to be added   13 its own level
--       14 full level, 0 = no bucket   15 lowest level
--
-- Instances send sums, not differences: a sync whose reply was lost, or which comes after a later one, adds nothing
-- twice.
local function whole(n) return string.format('%.0f', n) end
local function number(i) return tonumber(ARGV[i]) or 0 end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local ordinal = number(2)
local sums = {number(3), number(4), number(5)}
local added = {number(6), number(7), number(8)}
local period, parts = number(9), number(10)
local net, netAdded = number(11), number(12)

local known, slice, markSlice = 0, 0, 0
if period > 0 then slice = math.floor(now / period) end

local mark, age = redis.call('HGET', KEYS[3], ARGV[1]), nil
if mark then
  local o, s, f, w, n, at = string.match(mark, '^(%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+)$')
  if o then
    if tonumber(o) > ordinal then return {-1} end
    known = 1
    added = {tonumber(s), tonumber(f), tonumber(w)}
    netAdded = tonumber(n)
    age = now - tonumber(at)
    if period > 0 then markSlice = math.floor(tonumber(at) / period) end
  end
elseif redis.call('HLEN', KEYS[3]) % 64 == 63 then
  -- Instances come and go. Every now and then a new one forgets those that went.
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '(%d+)$')) or 0
    if at < now - 600000000 then redis.call('HDEL', KEYS[3], all[i]) end
  end
end

local fields = {}
if period > 0 then
  local begins = false
  for k, name in ipairs({'s', 'f', 'w'}) do
    local more = sums[k] - added[k]
    if more > 0 and redis.call('HINCRBY', KEYS[1], whole(slice) .. name, whole(more)) == more then begins = true end
  end
  fields = redis.call('HGETALL', KEYS[1])
  if begins then -- a slice, mostly: it is time to forget old ones
    redis.call('PEXPIRE', KEYS[1], whole(math.max(1000, period * parts * 2 / 1000)))
    for i = 1, #fields, 2 do
      local at = tonumber(string.match(fields[i], '^(%d+)[sfw]$'))
      if at and (at <= slice - parts or at > slice + parts) then redis.call('HDEL', KEYS[1], fields[i]) end
    end
  end
end

local full, level = number(14), 0
if full > 0 then
  local have = redis.call('GET', KEYS[2])
  if have then
    level = tonumber(have)
    if not level then return redis.error_reply('WRONGTYPE the level is not a number') end
    level = level + net - netAdded
  else
    level = number(13)
  end
  level = math.min(full, math.max(number(15), level))
  redis.call('SET', KEYS[2], whole(level), 'PX', '600000')
end

redis.call('HSET', KEYS[3], ARGV[1], string.format('%.0f %.0f %.0f %.0f %.0f %.0f', ordinal, sums[1], sums[2], sums[3], net, now))
if not age or now % 60000000 < age then redis.call('PEXPIRE', KEYS[3], '600000') end -- once a minute will do

return {known, slice, markSlice, added[1], added[2], added[3], netAdded, level, now - slice * period, fields}
