// The official client with `resumableFetch`, asked things in the middle of a call, over wires that
// are cut: it never notices.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import type { Cut } from '../../helpers/cut-proxy.js'
import { serve } from '../../helpers/serve.js'
import { booked, bookings, isAnswer, running, SERVER } from './bookings.js'
import { SPEC_OPTIONS } from './setups.js'

describe('a call that asks its client five things', () => {
  it.each(['2025-06-18', '2025-11-25'] as const)(
    'is answered in three turns, client 1.x at %s',
    async version => {
      const { book, wire, streams, errors, runs } = await running({}, (url, options) =>
        connectV1(url, { ...options, version })
      )
      expect(await book('k')).toEqual(booked('k'))
      expect(runs.get('k')).toBe(1)
      expect(errors).toEqual([])
      const posts = wire().filter(({ method, url }) => method === 'POST' && url.includes('stream='))
      expect(posts.map(({ answers }) => answers)).toEqual([1, 1, 3])
      expect(wire().filter(({ url, answers }) => !url.includes('stream=') && answers > 0)).toEqual(
        []
      )
      expect(streams.stats()).toMatchObject({ live: 1, waiting: 0 })
    }
  )

  it('is answered at the endpoint where the server does not hand off', async () => {
    const { book, wire } = await running({ handoff: 'never' })
    expect(await book('k')).toEqual(booked('k'))
    expect(wire().filter(({ url }) => url.includes('stream=')).length).toBe(0)
    expect(wire().filter(({ answers }) => answers > 0).length).toBe(5)
  })

  it('is one of forty at once over one client', async () => {
    const { book, runs } = await running()
    const keys = Array.from({ length: 40 }, (_, i) => `call ${i}`)
    expect(await Promise.all(keys.map(book))).toEqual(keys.map(booked))
    expect([...runs.values()]).toEqual(keys.map(() => 1))
  })

  it('is answered the same way by client 2.x at 2025-11-25', async () => {
    const { handler, runs } = bookings()
    const { url } = await serve(handler, SERVER)
    const { client } = await connectV2(url, {
      era: '2025-11-25',
      fetch: resumableFetch(SPEC_OPTIONS),
      onElicit: async ({ message }) => ({ action: 'accept', content: { answer: `${message}!` } })
    })
    const { content } = (await client
      .callTool({ name: 'book', arguments: { key: 'k' } })
      .catch(error => error)) as {
      content: { text: string }[]
    }
    // Sampling is not among its capabilities: the endpoint hears that as an answer too.
    expect(content[0]!.text).toMatch(/-32601|not support/i)
    expect(runs.get('k')).toBe(1)
  })
})

describe('the POST of the answers, cut', () => {
  // `spec/e2e/every-byte` cuts at every byte.
  it.each<[string, Cut]>([
    ['in the head of the request', { by: 'rst', direction: 'request', afterBytes: 40 }],
    ['before the response', { by: 'fin', afterBytes: 0 }],
    ['in the head of the response', { by: 'rst', afterBytes: 40 }],
    ['behind the head of the response', { by: 'fin', afterEvents: 0 }],
    ['behind an event', { by: 'rst', afterEvents: 1 }]
  ])('%s: each question is asked and answered once', async (_, cut) => {
    const { book, proxy, runs, asked } = await running()
    const turns = new Set<string>()
    // The POST of each turn is cut once.
    proxy.plan = request => {
      if (!isAnswer(request) || turns.has(request.url)) return undefined
      turns.add(request.url)
      return cut
    }
    const keys = ['a', 'b', 'c']
    expect(await Promise.all(keys.map(book))).toEqual(keys.map(booked))
    expect(proxy.cuts.length).toBeGreaterThan(3)
    expect([...runs.values()]).toEqual(keys.map(() => 1))
    expect(new Set(asked).size).toBe(asked.length)
  })
})
