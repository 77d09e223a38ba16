-- wrk: one hot target, asked for by many clients in turns. Arguments: the target, how many clients, and the milliseconds
-- between two requests of one connection.
local target, clients, pause = "/", 1, 0

function init(args)
    target, clients, pause = args[1], tonumber(args[2]), tonumber(args[3])
    math.randomseed(1)
end

function delay()
    -- Not all at once.
    return math.random(0, 2 * pause)
end

function request()
    local number = math.random(0, clients - 1)
    local client = string.format("10.%d.%d.%d", math.floor(number / 65536) % 256, math.floor(number / 256) % 256, number % 256)
    return wrk.format("GET", target, {["X-Forwarded-For"] = client})
end

-- How the result is told.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "../side_by_side/done.lua")
