// What a request holds while its endpoint works.

import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, it } from '@jest/globals'
import type { InstanceParts } from '../../../lib/endpoint/instance-parts.js'
import { RequestContext } from '../../../lib/endpoint/request-context.js'

function released(body: unknown, text: string | undefined) {
  const req = new IncomingMessage(new Socket())
  const nobody = { kind: 'nobody', owner: '' } as const
  const res = new ServerResponse(req)
  const context = new RequestContext({} as InstanceParts, req, res, () => undefined, nobody)
  context.learn(body, text)
  context.release()
  return context
}

const call = (length: number) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'any', arguments: { text: 'x'.repeat(length) }, _meta: { progressToken: 7 } }
})

it('not the arguments of a large call, and all else of it', () => {
  const large = call(10_000)
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' }
  const { messages, body, text } = released([large, list], JSON.stringify([large, list]))
  const params = { name: 'any', _meta: { progressToken: 7 } }
  expect(messages).toEqual([{ ...large, params }, list])
  expect([body, text]).toEqual([undefined, undefined])
  // It may be the endpoint's too.
  expect(large).toEqual(call(10_000))
})

it('a small one as it is, and one that somebody in front has parsed', () => {
  const [small, parsed] = [call(10), call(10_000)]
  expect(released(small, JSON.stringify(small)).messages[0]).toBe(small)
  expect(released(parsed, undefined).messages[0]).toBe(parsed)
})
