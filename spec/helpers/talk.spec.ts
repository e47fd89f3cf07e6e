// The language of conversations: what is played, and what is printed where one fails.

import { describe, expect, it } from '@jest/globals'
import { arrived, closed, cut, end, go, meanwhile, on } from './talk/client.js'
import { post, resume, take, until } from './talk/client.js'
import { hold, json, note, notes, result } from './talk/endpoint.js'
import { conversation, play, primer, talk, upTo } from './talk/index.js'

const CUT = {
  endpoint: [note(1), hold, note(2), result],
  client: [post, take(2), cut, go, resume, end]
}

describe.each(['by hand', 'SDK v1', 'SDK v1 stateless', 'SDK v2', 'SDK v2 handler'] as const)(
  'in front of an endpoint %s',
  server => {
    const session = server === 'SDK v1' || server === 'SDK v2' ? { session: 'its own' } : {}
    conversation('a cut between two events', {
      server,
      ...session,
      ...CUT,
      sees: [primer, 1, primer, 2, 'result', 'end']
    })
  }
)

conversation('a cut after which the client comes back to another instance', {
  ...CUT,
  instances: 2,
  client: [post, take(2), cut, resume({ at: 1 }), take(1), go, end],
  sees: [primer, 1, primer, 2, 'result', 'end']
})

conversation('requests that wait side by side, and one whose client leaves before its answer', {
  endpoint: [hold, json({})],
  client: [
    ...[meanwhile(post), arrived(1), meanwhile(post({ id: 2 })), arrived(2)],
    ...[meanwhile(post({ id: 3 })), arrived(3), cut, closed],
    ...[go({ run: 1 }), on(1, end), go({ run: 0 }), on(0, end)]
  ],
  sees: ['json', 'result', 'json', 'result of 2'],
  hears: ['tools/call', 'tools/call', 'tools/call', 'close']
})

conversation.each([
  ['one', 1],
  ['two', 2]
])('a row of a table: calls that come %s times', (_name, times) => ({
  endpoint: [[hold, json({})], [json({})]],
  client: [
    ...upTo(times).map(() => meanwhile(post)),
    arrived(times),
    post({ id: 9 }),
    end,
    go({ run: 0 }),
    on(0, end)
  ],
  word: message => (message.id === 9 ? 'the last result' : undefined),
  sees: [...upTo(times).flatMap(() => ['json', 'result']), 'json', 'the last result']
}))

it('a word that waits does not wait for ever where another has failed', async () => {
  const made = await talk()
  const waiting = made.plays(until(() => false))
  const broken = (): void => expect(1).toBe(2)
  await expect(made.plays(broken)).rejects.toThrow('toBe')
  await expect(waiting).rejects.toThrow('what was waited for has not come')
})

describe('a conversation that fails', () => {
  const printed = async (spec: Parameters<typeof play>[0], patience?: number): Promise<string> => {
    const error = await play(spec, patience).catch((error: Error) => error)
    return (error as Error).message
  }

  it('prints what was expected beside what was seen, with the first difference', async () => {
    expect(await printed({ ...CUT, sees: [primer, 1, 2, 'result', 'end'] })).toBe(
      `something else was seen

  the endpoint | the client
  note(1)      | post
  hold         | take(2)
  note(2)      | cut
  result       | go
               | resume
               | end

  expected | the client sees
  primer   | primer
  1        | 1
> 2        | primer
  result   | 2
  end      | result
           | end`
    )
  })

  it('prints what it waits for, where it hangs', async () => {
    const client = [post, take(2), cut({ by: 'rst' }), resume({ after: 0 }), take(3), end]
    const sees = [primer, 1, primer, 1, 'result', 'end']
    expect(await printed({ endpoint: [notes(1, 1), hold], client, sees }, 500)).toBe(
      `waited in vain

  the endpoint | the client
  notes(1, 1)  | post
  hold         | take(2)
               | cut({ by: 'rst' })
               | resume({ after: 0 })
>              | take(3)

  expected | the client sees
  primer   | primer
  1        | 1
> primer   |
  1        |
  result   |
  end      |`
    )
  })

  it('prints why a line of either side has thrown', async () => {
    const wrong = (): void => expect(1).toBe(2)
    expect(await printed({ endpoint: [wrong], client: [post] })).toMatch(
      /toBe[^]*Expected: 2[^]*the endpoint \| the client\n> wrong {8}\| post$/
    )
  })

  it('compares an object with the whole message', async () => {
    const own = { jsonrpc: '2.0', id: 1, result: { a: 1 } }
    const said = await printed({
      endpoint: [result],
      client: [post, end],
      sees: [primer, own, 'end']
    })
    expect(said).toContain('> {"jsonrpc":"2.0","id":1,"result":{"a":1}} | result')
  })
})
