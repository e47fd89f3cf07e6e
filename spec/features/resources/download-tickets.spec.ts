// What is kept of download URLs: bounded for all and for each, whatever clients do.

import { describe, expect, it } from '@jest/globals'
import { DownloadTickets, Ticket } from '../../../lib/resources/download-tickets.js'
import type { WantedResource } from '../../../lib/resources/resource-request.js'

const FACTS: WantedResource = {
  uri: 'a:1',
  owner: 'alice',
  sessionId: 's1',
  revision: '2026-07-28',
  envelope: { 'io.modelcontextprotocol/clientInfo': { name: 'x', parts: [1, null, 'é'] } },
  maxStreamSize: 10
}
const NOTHING_SAID = {
  sessionId: undefined,
  revision: undefined,
  envelope: undefined,
  maxStreamSize: undefined
}

describe('a ticket', () => {
  it('keeps what it was made out for', () => {
    for (const facts of [FACTS, { ...FACTS, ...NOTHING_SAID }])
      expect(new Ticket(facts, 1000).facts).toEqual(facts)
  })
})

describe('where there are many tickets', () => {
  const keptOf = (tickets: DownloadTickets, issued: readonly Ticket[]) =>
    issued.map(({ id }) => tickets.find(id).kind !== 'unknown')

  it('the least recently used one is forgotten', () => {
    const tickets = new DownloadTickets(2, 1000)
    const issued = [1, 2, 3].map(() => tickets.issue({ ...FACTS, owner: '' }))
    expect(keptOf(tickets, issued)).toEqual([false, true, true])
  })

  it('a large one takes the place of several, and is kept even where it is larger than all may be', () => {
    const tickets = new DownloadTickets(4, 1000)
    const small = [1, 2].map(() => tickets.issue({ ...FACTS, owner: '' }))
    const large = tickets.issue({ ...FACTS, owner: '', uri: `a:${'x'.repeat(5000)}` })
    expect(keptOf(tickets, [...small, large])).toEqual([false, true, true])
    const larger = tickets.issue({ ...FACTS, owner: '', envelope: { name: 'x'.repeat(16_000) } })
    expect(keptOf(tickets, [...small, large, larger])).toEqual([false, false, false, true])
  })

  it.each(['alice', ''])('a flood of owner %p drives out only its own, the oldest first', owner => {
    const tickets = new DownloadTickets(200, 1000)
    const bobs = tickets.issue({ ...FACTS, owner: 'bob' })
    const issued = Array.from({ length: 300 }, () => tickets.issue({ ...FACTS, owner }))
    expect(keptOf(tickets, [bobs])).toEqual([true])
    expect(keptOf(tickets, issued).lastIndexOf(false)).toBe(100)
    // Places count, not tickets.
    const large = Array.from({ length: 30 }, () =>
      tickets.issue({ ...FACTS, owner, uri: `a:${'x'.repeat(20_000)}` })
    )
    expect(keptOf(tickets, large).filter(Boolean)).toHaveLength(19)
    expect(keptOf(tickets, [issued.at(-1)!, bobs])).toEqual([false, true])
  })

  it('an owner with few gets room from one with many', () => {
    const tickets = new DownloadTickets(200, 1000)
    for (let i = 0; i < 200; i++) tickets.issue(FACTS)
    const bobs = Array.from({ length: 60 }, () => tickets.issue({ ...FACTS, owner: 'bob' }))
    expect(keptOf(tickets, bobs)).not.toContain(false)
  })

  it('their bytes are counted until they are forgotten', () => {
    const tickets = new DownloadTickets(100, 1000)
    expect(tickets.bytes).toBe(0)
    for (let i = 0; i < 200; i++) tickets.issue(FACTS)
    expect(tickets.bytes).toBe(100 * 2048)
    tickets.endSession('s1', 'alice')
    expect(tickets.bytes).toBe(0)
  })

  it('those without an owner have no limit per owner', () => {
    const tickets = new DownloadTickets(2000, 1000)
    const issued = Array.from({ length: 2000 }, () => tickets.issue({ ...FACTS, owner: '' }))
    expect(keptOf(tickets, issued)).not.toContain(false)
  })

  it('forgotten ones do not count any more', () => {
    const tickets = new DownloadTickets(100, 1000)
    const fill = (owner: string) =>
      Array.from({ length: 100 }, () => tickets.issue({ ...FACTS, owner }))
    fill('alice')
    tickets.endSession('s1', 'alice')
    expect(keptOf(tickets, fill('bob'))).not.toContain(false)
  })

  it('those of a session that has ended are forgotten, and no others', () => {
    const tickets = new DownloadTickets(100, 1000)
    const of = (sessionId: string | undefined, owner: string) =>
      tickets.issue({ ...FACTS, sessionId, owner })
    const issued = [
      of('s1', 'alice'),
      of('s1', 'alice'),
      of('s1', 'bob'),
      of('s2', 'alice'),
      of(undefined, 'alice')
    ]
    tickets.endSession('s1', 'alice')
    expect(keptOf(tickets, issued)).toEqual([false, false, true, true, true])
    tickets.endSession('s1', 'alice')
    tickets.endSession('s3', 'alice')
  })
})
