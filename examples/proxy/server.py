"""An MCP server by hand, on Python's http.server: one tool with five steps, and JSON for the rest."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

calls = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/mcp":
            return self.answer(404)
        if "id" not in message:
            return self.answer(202)
        if message["method"] == "tools/call":
            return self.call(message)
        result = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
        if message["method"] == "initialize":
            revision = message["params"]["protocolVersion"]
            info = {"name": "by hand", "version": "1"}
            result = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def do_GET(self):
        self.answer(405)

    def call(self, message):
        global calls
        calls += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        # It ends with its connection.
        self.send_header("Connection", "close")
        self.end_headers()
        token = message["params"].get("_meta", {}).get("progressToken")
        for step in range(1, 6):
            time.sleep(0.2)
            params = {"progressToken": token, "progress": step}
            self.emit({"method": "notifications/progress", "params": params})
        content = [{"type": "text", "text": f"call {calls}"}]
        self.emit({"id": message["id"], "result": {"content": content}})

    def emit(self, message):
        data = json.dumps({"jsonrpc": "2.0", **message})
        self.wfile.write(f"data: {data}\n\n".encode())

    def answer(self, status, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # a connection was cut


server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
