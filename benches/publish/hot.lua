-- wrk: hot targets from a file, one per line, in an order of their own. Arguments: the file, and the milliseconds
-- between two requests of one connection.
local targets, pause = {}, 0

function init(args)
    for line in io.lines(args[1]) do
        table.insert(targets, line)
    end
    pause = tonumber(args[2])
    math.randomseed(1)
end

function delay()
    -- Not all at once.
    return math.random(0, 2 * pause)
end

function request()
    return wrk.format("GET", targets[math.random(#targets)])
end

-- How the result is told.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "../side_by_side/done.lua")
