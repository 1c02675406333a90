-- Begins a new generation, because a key had to be set aside.
--
-- KEYS  1  generation
-- ARGV  1  the id to give it
-- Answer: nothing
-- Replay: begins one more.
-- include: clock
-- include: generation

generation_for(KEYS[1], ARGV[1], clock(''), true)
return redis.status_reply('OK')
