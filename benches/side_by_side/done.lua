-- wrk: what was sent and received, exactly. No callback runs per request.
function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        'RESULT {"requests":%d,"bytes":%d,"micros":%d,"refused":%d,"broken":%d,"p50":%d,"p99":%d}\n',
        summary.requests, summary.bytes, summary.duration, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
