// An endpoint that writes to its response itself, and beside it a well-behaved call of the same
// instance, which must not notice: what conversations of this folder have of their own.

import { expect } from '@jest/globals'
import type { OutgoingHttpHeaders } from 'node:http'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { callTool } from '../../helpers/mcp.js'
import {
  end,
  go,
  on,
  post,
  resume,
  take,
  turn,
  until,
  type Word
} from '../../helpers/talk/client.js'
import { hold, named, note, result, type Script } from '../../helpers/talk/endpoint.js'
import { primer, upTo, type Conversation, type World } from '../../helpers/talk/index.js'
import type { Middleware, Mount } from '../mounting/frameworks.js'
import { NODE, SSE_TYPE } from './setup.js'

/** A line of an endpoint that needs no more of its call. */
export type Step = (call: Pick<RawCall, 'req' | 'res'>) => unknown

/** A head that is not flushed. */
export const headed = (headers: object, ...reason: string[]): Step =>
  named('headed', ({ res }) =>
    res.writeHead(200, ...(reason as []), headers as OutgoingHttpHeaders)
  )

/** That of an event stream. */
export const head: Step = named('head', headed(SSE_TYPE))

export const codeOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException | null | undefined)?.code ?? 'fine'

/** Tells how its callback is called. */
export const says = (text: string | Buffer, tell?: Tell): Step =>
  named('says', ({ res }) => res.write(text, tell && (error => tell(codeOf(error)))))

export const ends = (text?: string | Buffer): Step => named('ends', ({ res }) => res.end(text))

/** Line by line as a handler does it: in one tick but for what is waited for, and what throws throws. */
export function perform(steps: readonly Step[], call: Parameters<Step>[0]): unknown {
  for (const [n, step] of steps.entries()) {
    const done = step(call)
    if (done instanceof Promise) return done.then(() => perform(steps.slice(n + 1), call))
  }
  return undefined
}

/** The stream once more, from its start. */
export const again: Word[] = [resume({ after: null }), end]

const NEIGHBOUR = 'x-neighbour'

/**
 * Mounts the endpoint, or another one beside the neighbour. It does not read its body, as what Node
 * does about a request depends on that; `req.next` is what comes after it.
 */
export const at =
  (mount: Mount, other?: Middleware): NonNullable<World['app']> =>
  (streams, endpoint) => {
    const own: Middleware = (req, res, next) =>
      endpoint(Object.assign(req, { next, body: callTool(1, 'any') }), res)
    return mount([
      streams,
      (...args) => (NEIGHBOUR in args[0].headers ? own : (other ?? own))(...args)
    ])
  }

export interface Beside extends Conversation {
  endpoint: Script
  sees?: readonly unknown[]
}

/** Beside a call that comes before all that is told, and goes on behind it. Its wire is the first. */
export function beside({ endpoint, client, sees, ...spec }: Beside): Conversation {
  const first = spec.options?.primer === 'never' ? [1] : [primer, 1]
  return {
    app: at(NODE),
    ...spec,
    endpoint: [[note(1), hold, note(2), result], endpoint],
    client: [
      ...[post({ headers: { [NEIGHBOUR]: '1' } }), take(first.length)],
      ...[...client, go({ run: 0 }), on(0, end)]
    ],
    ...(sees && { sees: [...first, 2, 'result', 'end', ...sees] })
  }
}

export type Tell = (what: string) => unknown
/** What an endpoint tells; a set: in any order. */
export type Told = readonly string[] | ReadonlySet<string>

/** Its endpoint tells what it is told, and no more than that. */
export function telling(told: Told, spec: (tell: Tell) => Beside): Conversation {
  const heard: string[] = []
  const { client, ...rest } = spec(what => heard.push(what))
  const all = [...told]
  return beside({
    ...rest,
    client: [...client, until(() => heard.length >= all.length), ...upTo(5).map(() => turn)],
    then: () =>
      told instanceof Set
        ? expect(heard.toSorted()).toEqual(all.toSorted())
        : expect(heard).toEqual(all)
  })
}
