"""A program: an HTTP/1.1 proxy before the sample origin that lets every request wait. `counts` starts it.

Arguments: port, port of the origin, seconds, and a file that gets the target of each request as a line of JSON. It
reads heads only, and knows nothing of bodies of requests, since a mirror sends none.
"""

import asyncio
import json
import sys


async def forward(reader, writer):
    """Bytes as they come, until the end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def main(port, origin_port, seconds, path):
    with open(path, "w", buffering=1) as log:

        async def serve(reader, writer):
            origin_reader, origin_writer = await asyncio.open_connection("127.0.0.1", origin_port)
            answers = asyncio.create_task(forward(origin_reader, writer))
            try:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    log.write(json.dumps(head.split(b" ")[1].decode()) + "\n")
                    await asyncio.sleep(seconds)
                    origin_writer.write(head)
            except (asyncio.IncompleteReadError, OSError):
                pass
            origin_writer.close()
            await answers

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
