// One request over a bare socket, and every byte of the answer but the date: for answers that must
// not differ.

import { once } from 'node:events'
import { connect } from 'node:net'

/** The answer as it stood on the wire, its `Date` aside. The server must end the response. */
export async function rawExchange(
  url: string,
  method: string,
  headers: Record<string, string> = {}
): Promise<string> {
  const { hostname, port, host, pathname, search } = new URL(url)
  const fields = { Host: host, Connection: 'close', ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  const socket = connect(Number(port), hostname)
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  socket.write(`${method} ${pathname}${search} HTTP/1.1\r\n${lines.join('')}\r\n`)
  await once(socket, 'close')
  const answer = Buffer.concat(chunks).toString()
  if (!/^Date: /m.test(answer)) throw new Error(`no date in ${answer}`)
  return answer.replace(/^Date: .*$/m, 'Date: now')
}
