"""What the scripts of this directory share; none of it is run by itself.

Further down may use what is further up:

processes       start, stop, wait; the CPU time and memory of a server with all its children
web             single requests
load            wrk, h2load, full handshakes, and a pool of clients for slow servers
tools           what has to be installed, versions, the machine
bench           how a bench begins: arguments, cores, a scratch directory
mirror          the sample origin and grandstand itself
peers           nginx, Varnish, bare pingora, a socket loop in C
row             figures of a row, their ratios and goals
hot, tls        rows: hot objects over HTTP/1.1; HTTP/2 and TLS
mix, export     queries that nobody asked before; the mirror's data for other servers
data_servers    Datasette, ROAPI, json-server, SQLite
never_seen      rows: that mix against them
starts          memory, and starts from the durable snapshot
counts          what the origin is asked (slow_proxy: a program before it)
report, plot    Markdown and SVG
"""
