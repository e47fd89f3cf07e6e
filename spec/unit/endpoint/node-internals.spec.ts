// What we know of the insides of Node is still so. Where a release of Node changes the text of what
// we rely upon, this names it: read it again, and if what is said of it here still holds, and the
// specs beside this one pass, add its digest.

import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { IncomingMessage, OutgoingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import {
  HEAD_METHODS,
  INTERIM_METHODS,
  letBodyCome,
  METHOD_NAMES,
  pieceCount,
  piecesIn
} from '../../../lib/http/node-internals.js'

const CLASSES: Record<string, { readonly prototype: object }> = {
  IncomingMessage,
  OutgoingMessage,
  ServerResponse,
  Socket
}

/** Where it is, what we rely upon, and digests of its text from Node 20.0 to 26.10. */
const KNOWN: readonly [place: string, what: string, digests: string][] = [
  [
    'ServerResponse.writeHead',
    'every head leaves by it, also one that nobody has written; sets _header at once',
    'g7cDsx0H1SCu YkQnWTa7ttKf 38u464cmw8iB'
  ],
  ['ServerResponse._implicitHeader', 'calls this.writeHead(this.statusCode)', 'g_dlnoGHHBTz'],
  ['ServerResponse.assignSocket', 'sets socket._httpMessage', 'rt9hzuu0kCvY rXpKnr2J4T_m'],
  ['ServerResponse.detachSocket', 'clears socket._httpMessage', 'QmJGSuOA9CeR'],
  [
    'OutgoingMessage.write',
    'asks for a head by this._implicitHeader, and looks at finished and destroyed',
    'Mejk5un8-jWr'
  ],
  [
    'OutgoingMessage.end',
    'asks for a head by this._implicitHeader, computes the length of a body that comes with it, and does not call this.write',
    'xB4rr0_flAtI -iTic-4m-1of kRYHIBINidYP hrIt-a6sCwj8 i-9sZH2XRjAi'
  ],
  ['OutgoingMessage.flushHeaders', 'asks for a head by this._implicitHeader', '6Salaodqs9Dn'],
  [
    'OutgoingMessage.setHeader',
    'throws once there is a _header',
    'QYC9gNoOeoxp obEvgfbypNjq Mh2Kg_eQ86sH'
  ],
  [
    'OutgoingMessage.getHeader',
    'reads what has been set',
    '5d4qHAKQIxha jHNphY4f2lYv K4I0fTf8sQ3_'
  ],
  [
    'OutgoingMessage.destroy',
    'sets destroyed, and destroys the socket',
    'TuaaQGgR58KE Yo0TlGMawGrV 0gW1DOK-jmOC _dkXONkI3YLT'
  ],
  ['OutgoingMessage.get headersSent', 'is whether there is a _header', 'nMZNgnMKnQqY'],
  ['OutgoingMessage.get writableEnded', 'is finished', 'p8Zm5CywqjVP'],
  [
    'OutgoingMessage.get writableFinished',
    'looks at finished, and at what waits to leave',
    'gn6R5r9qgnt3 xaMe8rQFgU7m MUC7W2rxXlnP'
  ],
  ['OutgoingMessage.get writableNeedDrain', 'looks at destroyed and finished', 'WKwG-8-Y3reV'],
  ['OutgoingMessage.get closed', 'is _closed', 'KICLrwGR2wMT'],
  ['OutgoingMessage.get errored', 'is the error that it was destroyed with', 'Tpb4BX2dsmkQ'],
  [
    'OutgoingMessage.get writableLength',
    'counts what the socket holds too',
    '9lcmpGc2K6gD Xw9fpZZKeVo3 kP1wA8MCXKQ4'
  ],
  [
    'IncomingMessage._destroy',
    'sets aborted, and destroys the socket of a body that was not read',
    'sGunn_Au0OHt Xbqsg5j92Rxv uIGX1lrn8Zs3'
  ],
  [
    'IncomingMessage._dump',
    'drops a body that nobody reads, with the end of the response',
    'a1MN9KMHNEIe 7MCAXAn5SVK6'
  ],
  ['Socket.destroySoon', 'destroys once what was written has left', 'cxtIpFV21rMR']
]

/** What a fresh response keeps as plain properties of its own. */
const PLAIN = ['destroyed', 'finished', 'sendDate', '_header', '_headerSent', '_closed']

function digestOf(place: string): string | undefined {
  const [, owner, accessor, name] = /^(\w+)\.(get )?(\w+)$/.exec(place)!
  const property = Object.getOwnPropertyDescriptor(CLASSES[owner!]!.prototype, name!)
  const text: unknown = accessor === undefined ? property?.value : property?.get
  return typeof text === 'function'
    ? createHash('sha256')
        .update(text.toString().replace(/\s+/g, ' '))
        .digest('base64url')
        .slice(0, 12)
    : undefined
}

it.each(KNOWN)('%s is what we know: it %s', (place, what, digests) => {
  const digest = digestOf(place)
  const isKnown = digest !== undefined && digests.split(' ').includes(digest)
  const change = digest === undefined ? 'is gone' : `has changed, to ${digest}`
  const message = `${place} of Node ${process.version} ${change}; we rely upon this: it ${what}`
  expect(isKnown ? 'as known' : message).toBe('as known')
})

it('a response keeps as plain properties what we set', () => {
  const own = Object.getOwnPropertyNames(new ServerResponse(new IncomingMessage(new Socket())))
  expect(PLAIN.filter(name => !own.includes(name))).toEqual([])
})

it('a response has no method for its head that we have not heard of', () => {
  const known: readonly string[] = [...METHOD_NAMES, ...HEAD_METHODS, ...INTERIM_METHODS]
  const ofHead = [ServerResponse.prototype, OutgoingMessage.prototype]
    .flatMap(prototype => Object.getOwnPropertyNames(prototype))
    .filter(name => /header|^write/i.test(name) && !/^_|^headersSent$|^writable/.test(name))
  const others = ['writeHeader']
  expect(ofHead.filter(name => !known.includes(name) && !others.includes(name))).toEqual([])
})

describe('the body of a request', () => {
  const PIECE = Buffer.alloc(1000, 'x')
  const request = () => new IncomingMessage(new Socket())
  const textsIn = (req: IncomingMessage) => piecesIn(req).map(String)

  it('lies in it in pieces, but for what has been read', () => {
    const req = request()
    for (const piece of ['one', 'two', 'three']) req.push(Buffer.from(piece))
    expect([textsIn(req), pieceCount(req)]).toEqual([['one', 'two', 'three'], 3])
    req.read(3)
    expect([textsIn(req), pieceCount(req)]).toEqual([['two', 'three'], 2])
    req.setEncoding('utf8')
    expect(textsIn(req).join('')).toBe('twothree')
  })

  it('comes up to any size, and nothing is left of that it was listened to', async () => {
    const req = request()
    const stateOf = () => [
      req.readableFlowing,
      req.readableDidRead,
      req.readableHighWaterMark,
      req.listenerCount('readable'),
      (req as { _consuming?: boolean })._consuming
    ]
    const before = stateOf()
    const sizes: number[] = []
    const most = 2 * req.readableHighWaterMark
    const stop = letBodyCome(req, most, () => sizes.push(req.readableLength))
    while (req.readableLength + PIECE.length <= most) expect(req.push(PIECE)).toBe(true)
    await new Promise(setImmediate)
    req.push(PIECE)
    await new Promise(setImmediate)
    expect(sizes).toEqual([req.readableLength - PIECE.length, req.readableLength])
    const stopped = new Promise<void>(stop)
    expect(req.push(PIECE)).toBe(false)
    await stopped
    expect(stateOf()).toEqual(before)
    expect(sizes).toHaveLength(2)
  })

  it('tells its end, also where it is empty, and ends for who reads it then', async () => {
    const req = request()
    const ended: boolean[] = []
    req.once('end', () => ended.push(true))
    const heard: true[] = []
    const stop = letBodyCome(req, 10, () => heard.push(true))
    await new Promise(setImmediate)
    req.push(null)
    await new Promise(setImmediate)
    expect([heard.length, ended.length]).toEqual([1, 0])
    await new Promise<void>(stop)
    expect(ended).toEqual([])
    req.resume()
    await new Promise(setImmediate)
    expect(ended).toEqual([true])
  })
})
