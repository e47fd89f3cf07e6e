// How far an endpoint has come with a response that is captured, or was not.

/**
 * - `undecided`: its head is not due yet.
 * - `untaken`: everything passes; the response is as it would be without us.
 * - `passed`: so it was, and it has been ended.
 * - `headed`: taken: the endpoint has given its head, which leaves at the end of the tick at the
 *   latest.
 * - `early`: taken before the endpoint has given its head: the wire has one of ours.
 * - `running`: taken, and the wire has a head: the endpoint writes its body.
 * - `ended`, `broken`: taken, and the endpoint has called `end` or `destroy`.
 *
 * Whether the socket is there still is for the wire to say, and who hears of it for the events:
 * each of them may change in any of these.
 */
export type CapturePhase =
  'undecided' | 'untaken' | 'passed' | 'headed' | 'early' | 'running' | 'ended' | 'broken'

/**
 * - `leave`: the response is left alone.
 * - `take`: its head is that of a stream. `takeEarly`: it is taken without one.
 * - `begin`: the head leaves; from `early` on, the endpoint gives it to nobody.
 * - `stepAside`: what is written shows that it was not ours to take.
 * - `end`, `break`: the endpoint calls `end`, or destroys what it has; before its head that is one
 *   where all that it does is heard.
 */
export type CaptureStep = 'leave' | 'take' | 'takeEarly' | 'begin' | 'stepAside' | 'end' | 'break'

const TAKEN = { stepAside: 'untaken', end: 'ended', break: 'broken' } as const

const TRANSITIONS: Readonly<
  Record<CapturePhase, Readonly<Partial<Record<CaptureStep, CapturePhase>>>>
> = {
  undecided: {
    leave: 'untaken',
    take: 'headed',
    takeEarly: 'early',
    end: 'passed',
    break: 'broken'
  },
  untaken: { end: 'passed' },
  passed: {},
  headed: { ...TAKEN, begin: 'running' },
  early: { ...TAKEN, begin: 'running' },
  running: TAKEN,
  ended: {},
  broken: {}
}

/** The phase after a step; `undefined`: the step means nothing any more. */
export function phaseAfter(phase: CapturePhase, step: CaptureStep): CapturePhase | undefined {
  return TRANSITIONS[phase][step]
}

/** Whether the endpoint writes to a stream, and not to the wire. */
export function isCaptured(phase: CapturePhase): boolean {
  return phase !== 'undecided' && phase !== 'untaken' && phase !== 'passed'
}
