// Sessions of several instances, each with an endpoint of its own that knows what it has begun.

import { expect } from '@jest/globals'
import { initializeSession, result } from '../../helpers/mcp.js'
import { end, post, type Word } from '../../helpers/talk/client.js'
import { named } from '../../helpers/talk/endpoint.js'
import { primer, type Talk } from '../../helpers/talk/index.js'
import { forgetful, surviving, VERSION } from './setup.js'

export const several = (instances = 3) => {
  const { options, session } = surviving()
  return { ...forgetful(), session, instances, options: { ...options, retry: 100 } }
}

/** An instance that has had no request begins nothing for others. */
export const wakeAll: Word = ({ urls }) =>
  Promise.all(urls.slice(1).map(url => initializeSession(url, VERSION)))

const closings: Promise<void>[] = []
/** It is shut down, and stays until its calls are over: not one ends because the time is up. */
export const leaves = (instance: number): Word =>
  named(
    `leaves(${instance})`,
    ({ members }) => void closings.push(members[instance]!.streams.close({ drain: 600_000 }))
  )
export const haveLeft: Word = () => Promise.all(closings.splice(0))

/** It is shut down, and gone. */
export const gone = (instance: number): Word =>
  named(`gone(${instance})`, ({ members }) => members[instance]!.streams.close({ drain: 0 }))

/** A call by way of one instance, which runs at another, or the same one, and is over. */
export const served = (id: number, at: number, runs: number): Word[] => [
  ...[post({ id, at }), end, runsAt(runs)]
]

/** Where each call runs. */
export const running = ({ endpoints, runs }: Talk): number[] =>
  runs.map(({ call }) => endpoints.findIndex(({ requests }) => requests.includes(call)))

/** Where the newest call runs. */
export const runsAt = (instance: number): Word =>
  named(`runsAt(${instance})`, talk => expect(running(talk).at(-1)).toBe(instance))

/** A call that asks, before its session moves, and after: then under an id that says by whom. */
export const ASKED_FIRST = [primer, 'ping', 'asks 0', 'result', 'end']
export const ASKED_ELSEWHERE = expect.objectContaining({ method: 'elicitation/create' })

/** The ids under which an endpoint has asked on a wire. */
export const askedOn = ({ wires }: Talk, wire: number): unknown[] =>
  (wires[wire]!.response?.messages() ?? []).flatMap(({ id, method }) =>
    method === 'elicitation/create' ? [id] : []
  )

/** Answers what it was asked on a wire, by way of an instance. */
export const answers = (wire: number, at: number): Word =>
  named(`answers(${wire}, ${at})`, talk =>
    talk.send({ at, body: result(askedOn(talk, wire)[0] as number, { wire }) })
  )

/** The wires whose question each endpoint has got an answer to, under the id that it has given. */
export const heard = (...wires: number[][]): Word =>
  named(`heard(${JSON.stringify(wires)})`, ({ endpoints }) => {
    const answersTo = ({ requests }: Talk['endpoint']): unknown[] =>
      requests.flatMap(({ message: { id, result } = {} }) =>
        result === undefined ? [] : id === 0 ? result.wire : `under ${id}`
      )
    expect(endpoints.map(answersTo)).toEqual(wires)
  })

export const revivals = ({ members }: Talk): number[] =>
  members.map(({ streams }) => streams.stats().revivals)
