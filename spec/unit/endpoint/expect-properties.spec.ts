// A request or a response that is about to be given more properties stays what it was, and so does one
// whose memory is made smaller.

import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from '@jest/globals'
import { compact, expectPatches, expectProperties } from '../../../lib/endpoint/node-internals.js'

class Born {
  mark: unknown = 1
  other = 2
}

const given = (): Born =>
  Object.setPrototypeOf(new Born(), Object.create(Born.prototype) as object) as Born

it('an object keeps its properties, their values and what may be done with them', () => {
  for (const value of [0, undefined, { deep: true }]) {
    const object = given()
    Object.defineProperty(object, 'mark', {
      value,
      enumerable: false,
      writable: false,
      configurable: true
    })
    const before = Object.getOwnPropertyDescriptors(object)
    expectProperties(object, Born.prototype, 'mark')
    expect(Object.getOwnPropertyDescriptors(object)).toEqual(before)
    expect(object).toBeInstanceOf(Born)
  }
})

it('an object that can be given none, or that has lost the property, is left alone', () => {
  for (const object of [
    Object.freeze(given()),
    Object.seal(given()),
    Object.preventExtensions(given())
  ]) {
    expectProperties(object, Born.prototype, 'mark')
    expect({ ...object }).toEqual({ mark: 1, other: 2 })
  }
  const object = given()
  expectProperties(object, Born.prototype, 'lost')
  expect({ ...object }).toEqual({ mark: 1, other: 2 })
})

it('those of a call whose client has gone are no hash tables any more, and are what they were', () => {
  setFlagsFromString('--allow-natives-syntax')
  const isFast = new Function('object', 'return %HasFastProperties(object)')
  const inherit = <T extends object>(object: T) =>
    Object.setPrototypeOf(object, Object.create(Object.getPrototypeOf(object))) as T
  let last: object[] = []
  // What V8 knows of the code that reads comes with its use.
  for (let n = 0; n < 100; n++) {
    const req = inherit(new IncomingMessage(new Socket()))
    const res = inherit(new ServerResponse(req))
    expectPatches(req, res)
    Object.assign(res, { write: () => true, end: () => res })
    const before = [req, res].map(each => Object.getOwnPropertyDescriptors(each))
    compact(req, res)
    last = [req, res]
    expect(last.map(each => Object.getOwnPropertyDescriptors(each))).toEqual(before)
  }
  expect(last.map(each => isFast(each))).toEqual([true, true])
})

it('the head of a call whose client has gone takes no more than its characters', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heapUsed = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const [req, heads] = [new IncomingMessage(new Socket()), 2000]
  const all = Array.from({ length: heads }, (_, n) => {
    const res = new ServerResponse(req)
    res.writeHead(200, { 'Content-Type': `text/event-stream; n=${n}`, Link: `<?stream=${n}>` })
    return res
  })
  const before = heapUsed()
  for (const res of all) compact(req, res)
  expect((before - heapUsed()) / heads).toBeGreaterThan(300)
  expect(all.every(res => res.headersSent)).toBe(true)
})
