// What is kept of download URLs: bounded for all and for each, whatever clients do.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { DownloadTickets, Ticket, type TicketFacts } from '../../lib/methods/download-tickets.js'

afterEach(() => {
  jest.restoreAllMocks()
})

const FACTS: TicketFacts = {
  uri: 'a:1',
  owner: 'alice',
  sessionId: 's1',
  revision: '2026-07-28',
  envelope: { 'io.modelcontextprotocol/clientInfo': { name: 'x', parts: [1, null, 'é'] } },
  maxStreamSize: 10
}
const NOTHING_SAID = { sessionId: undefined, revision: undefined, envelope: undefined, maxStreamSize: undefined }

describe('a ticket', () => {
  it('keeps what it was made out for', () => {
    for (const facts of [FACTS, { ...FACTS, ...NOTHING_SAID }]) expect(new Ticket(facts, 1000).facts).toEqual(facts)
  })

  it('is followed in a hundred pieces apart, and complete all the same once they meet', () => {
    const ticket = new Ticket(FACTS, 1000)
    const size = 300
    for (let i = 1; i < size; i += 2) ticket.delivered(i, i + 1, size, true)
    for (let i = 0; i < size; i += 2) ticket.delivered(i, i + 1, size, true)
    expect(ticket.stateFor(0)).toBe('good')
    // Those that were too many have to come once more.
    for (let i = 1; i < size; i += 2) ticket.delivered(i, i + 1, size, true)
    expect(ticket.stateFor(0)).toBe('used')
  })

  it('is not kept alive by those who fetch its tail time and again', () => {
    let now = 1000
    jest.spyOn(Date, 'now').mockImplementation(() => now)
    const ticket = new Ticket(FACTS, 300_000)
    ticket.delivered(0, 100, 100, true)
    now += 9000
    expect(ticket.stateFor(1)).toBe('good')
    ticket.delivered(1, 100, 100, true)
    now += 9000
    expect(ticket.stateFor(1)).toBe('used')
  })
})

describe('of many tickets', () => {
  const keptOf = (tickets: DownloadTickets, issued: readonly Ticket[]) =>
    issued.map(({ id }) => tickets.get(id) !== undefined)

  it('the one that was used least recently is forgotten', () => {
    const tickets = new DownloadTickets(2, 1000)
    const issued = [1, 2, 3].map(() => tickets.issue({ ...FACTS, owner: '' }))
    expect(keptOf(tickets, issued)).toEqual([false, true, true])
  })

  it('one that keeps much takes the place of several, and is kept though it takes more than there are', () => {
    const tickets = new DownloadTickets(4, 1000)
    const small = [1, 2].map(() => tickets.issue({ ...FACTS, owner: '' }))
    const large = tickets.issue({ ...FACTS, owner: '', uri: `a:${'x'.repeat(5000)}` })
    expect(keptOf(tickets, [...small, large])).toEqual([false, true, true])
    const larger = tickets.issue({ ...FACTS, owner: '', envelope: { name: 'x'.repeat(16_000) } })
    expect(keptOf(tickets, [...small, large, larger])).toEqual([false, false, false, true])
  })

  it('an owner keeps a tenth, its latest, and drives out nobody else', () => {
    const tickets = new DownloadTickets(2000, 1000)
    const bobs = tickets.issue({ ...FACTS, owner: 'bob' })
    const issued = Array.from({ length: 3000 }, () => tickets.issue(FACTS))
    expect(keptOf(tickets, [bobs])).toEqual([true])
    expect(keptOf(tickets, issued).lastIndexOf(false)).toBe(2799)
    // Places count, not tickets.
    const large = Array.from({ length: 30 }, () => tickets.issue({ ...FACTS, uri: `a:${'x'.repeat(20_000)}` }))
    expect(keptOf(tickets, large).filter(Boolean)).toHaveLength(20)
    expect(keptOf(tickets, [issued.at(-1)!, bobs])).toEqual([false, true])
  })

  it('nobody in particular has them all', () => {
    const tickets = new DownloadTickets(2000, 1000)
    const issued = Array.from({ length: 2000 }, () => tickets.issue({ ...FACTS, owner: '' }))
    expect(keptOf(tickets, issued)).not.toContain(false)
  })

  it('what was forgotten counts no more', () => {
    const tickets = new DownloadTickets(100, 1000)
    const fill = () => Array.from({ length: 100 }, () => tickets.issue({ ...FACTS, owner: '' }))
    tickets.issue(FACTS)
    fill()
    const issued = Array.from({ length: 100 }, () => tickets.issue(FACTS))
    expect(keptOf(tickets, issued)).not.toContain(false)
  })
})
