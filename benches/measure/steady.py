"""wrk at a fixed rate on one page: what good clients notice. Not what else the server has to bear meanwhile."""

import json
import re
import subprocess
from pathlib import Path

from .processes import check

CONNECTIONS = 16
SCRIPT = Path(__file__).resolve().parent.parent / "publish" / "hot.lua"


def steady(core, port, file, rate, seconds):
    """What wrk says of the page whose target is in a file, asked for so many times a second, about."""
    delay = max(1, round(1000 * CONNECTIONS / rate))
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    command += ["-s", str(SCRIPT), f"http://127.0.0.1:{port}", "--", str(file), str(delay)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds + 30)
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    check(found, f"wrk said nothing:\n{done.stdout}")
    result = json.loads(found[1])
    check(result["refused"] == 0 and result["broken"] == 0, f"answers that are none: {result}")
    return result
