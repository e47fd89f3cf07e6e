import { expect, it } from '@jest/globals'
import { blocksOf, isEventStream, textOf } from '../../../lib/check/body.js'

const response = (body: string, type: string): Response =>
  new Response(body, { headers: { 'Content-Type': type } })

it.each([
  ['text/event-stream', true],
  ['Text/Event-Stream; charset=UTF-8', true],
  ['text/event-streams', false],
  ['application/json', false]
])('a body of type %s is an event stream: %j', (type, is) => {
  expect(isEventStream(response('', type))).toBe(is)
})

it('reads no more than 4 MiB of an answer', async () => {
  const long = ':'.repeat(4 * 1024 * 1024)
  expect(await textOf(response(long, 'text/plain'))).toHaveLength(long.length)
  await expect(textOf(response(`${long}:`, 'text/plain'))).rejects.toThrow('more than 4 MiB')
})

it('reads the id, the data and the type of each block', async () => {
  const blocks = []
  const text = 'id: 1\ndata: a\n\nevent: prime\nid: 2\ndata: {}\n\n: comment\n\n'
  for await (const block of blocksOf(response(text, 'text/event-stream'))) blocks.push(block)
  expect(blocks).toEqual([
    { id: '1', data: 'a', isMessage: true },
    { id: '2', data: '{}', isMessage: false },
    { id: undefined, data: undefined, isMessage: true }
  ])
})
