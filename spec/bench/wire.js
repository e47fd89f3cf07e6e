// The client's side of a bench: HTTP/1.1 on a bare socket, so that the server is what limits a
// round, never its load.

import { once } from 'node:events'
import { connect } from 'node:net'

const LF = 10
const COLON = 58
const S = 115
const host = '127.0.0.1'
const BOTH = 'application/json, text/event-stream'

// One buffer for all sockets: it is read to its end before the next socket fills it.
const buffer = Buffer.allocUnsafeSlow(256 * 1024)

/**
 * One connection. `request` sends, feeds the body to a sink and answers the head once the response
 * has ended.
 */
export class Wire {
  static async open(port) {
    const wire = new Wire(port)
    await once(wire.socket, 'connect')
    return wire
  }

  constructor(port) {
    const onread = { buffer, callback: (length, bytes) => this.#read(bytes.subarray(0, length)) }
    this.socket = connect({ port, host, noDelay: true, onread })
    this.socket.on('error', error => this.#fail(error))
    this.socket.on('close', () =>
      this.#fail(new Error('The server closed the connection in mid-response'))
    )
    this.#reset()
  }

  request(method, target, { headers = {}, accept = BOTH, body, sink } = {}) {
    const lines = [`${method} ${target} HTTP/1.1`, 'Host: localhost', `Accept: ${accept}`]
    for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`)
    const json = body === undefined ? '' : JSON.stringify(body)
    if (json)
      lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(json)}`)
    this.sink = sink
    this.socket.write(`${lines.join('\r\n')}\r\n\r\n${json}`)
    return new Promise((resolve, reject) => Object.assign(this, { resolve, reject }))
  }

  /** Leaves in mid-response; `request` then answers what it has. */
  leave() {
    this.socket.destroy()
    this.#end()
  }

  #reset() {
    this.phase = 'head'
    this.head = ''
    this.left = 0
    this.size = 0
  }

  #fail(error) {
    this.reject?.(error)
    this.resolve = this.reject = undefined
  }

  #end() {
    const { resolve, parsed } = this
    this.resolve = this.reject = undefined
    this.#reset()
    resolve?.(parsed)
  }

  #read(bytes) {
    try {
      this.#parse(bytes)
    } catch (error) {
      this.#fail(error)
      this.socket.destroy()
    }
    return true
  }

  #parse(bytes) {
    let i = 0
    while (i < bytes.length) {
      if (this.phase === 'body' || this.phase === 'chunk') {
        const to = Math.min(bytes.length, i + this.left)
        this.left -= to - i
        this.sink?.push(bytes, i, to)
        i = to
        if (this.left > 0) continue
        if (this.phase === 'body') this.#end()
        else this.phase = 'chunk end'
      } else if (this.phase === 'size') {
        const byte = bytes[i++]
        if (byte === LF) {
          this.left = this.size
          this.phase = this.size > 0 ? 'chunk' : 'trailer'
          this.size = 0
        } else if (byte > 13) {
          this.size = this.size * 16 + (byte < 58 ? byte - 48 : (byte | 32) - 87)
        }
      } else if (this.phase === 'chunk end') {
        if (bytes[i++] === LF) this.phase = 'size'
      } else if (this.phase === 'trailer') {
        if (bytes[i++] === LF) this.#end()
      } else {
        i = this.#parseHead(bytes, i)
      }
    }
  }

  #parseHead(bytes, from) {
    const before = this.head.length
    this.head += bytes.latin1Slice(from)
    const end = this.head.indexOf('\r\n\r\n')
    if (end < 0) return bytes.length
    const [first, ...lines] = this.head.slice(0, end).split('\r\n')
    const headers = Object.fromEntries(
      lines.map(line => [line.split(':', 1)[0].toLowerCase(), line.slice(line.indexOf(':') + 2)])
    )
    this.parsed = { status: Number(first.split(' ')[1]), headers }
    this.sink?.open?.(this.parsed)
    if (headers['transfer-encoding'] === 'chunked') {
      this.phase = 'size'
    } else {
      this.phase = 'body'
      this.left = Number(headers['content-length'] ?? 0)
      if (this.left === 0) this.#end()
    }
    return from + end + 4 - before
  }
}

const BLANK_LINE = Buffer.from('\n\n')

/**
 * A sink that checks every event as it comes: numbered from 1 without a hole, then the response.
 */
export class EventCheck {
  events = 0
  response = false
  firstId
  #rest
  // Bytes from an event's number to its end: always the same, so that one search per event finds
  // its number, too.
  #tail = 0

  /** @param watch is called after each read with the number of events so far. */
  constructor(watch) {
    this.watch = watch
  }

  push(bytes, from, to) {
    if (this.#rest) {
      bytes = Buffer.concat([this.#rest, bytes.subarray(from, to)])
      this.#rest = undefined
      from = 0
      to = bytes.length
    }
    while (from < to) {
      const end = bytes.indexOf(BLANK_LINE, from)
      if (end < 0 || end + 2 > to) {
        this.#rest = Buffer.from(bytes.subarray(from, to))
        break
      }
      if (this.#tail > 0 && progressBefore(bytes, end - this.#tail) === this.events + 1)
        this.events++
      else this.#look(bytes.latin1Slice(from, end))
      from = end + 2
    }
    this.watch?.(this.events)
  }

  #look(block) {
    this.firstId ??= /^id: (.*)$/m.exec(block)?.[1]
    const number = /"progress":(\d+)/.exec(block)
    if (number) {
      const tail = block.length - number.index - number[0].length
      if (Number(number[1]) !== this.events + 1 || (this.#tail !== 0 && tail !== this.#tail)) {
        throw new Error(`Event ${number[1]} came after event ${this.events}`)
      }
      this.#tail = tail
      this.events++
    } else if (block.includes('"result"')) {
      this.response = true
    } else if (/^data: *\S/m.test(block) && !block.includes('event: prime')) {
      throw new Error(`Unexpected event: ${block.slice(0, 200)}`)
    }
  }

  verify(events, response = true) {
    if (this.events !== events || this.response !== response || this.#rest) {
      throw new Error(
        `${this.events} of ${events} events came, ${this.response ? 'and' : 'but not'} the response`
      )
    }
  }
}

/** The number of `"progress":<number>` that ends at an offset; 0 where something else does. */
function progressBefore(bytes, end) {
  let number = 0
  for (let unit = 1; bytes[end - 1] >= 48 && bytes[end - 1] <= 57; unit *= 10)
    number += (bytes[--end] - 48) * unit
  return bytes[end - 1] === COLON && bytes[end - 3] === S ? number : 0
}

/** A sink that keeps the text of a small response. */
export class Text {
  text = ''
  push(bytes, from, to) {
    this.text += bytes.latin1Slice(from, to)
  }
}
