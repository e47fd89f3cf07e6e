// How far an endpoint has come with its response, whether that is captured or not.

/**
 * - `undecided`: its head is not due yet.
 * - `untaken`: everything passes; the response is as it would be without us.
 * - `passed`: untaken, and ended.
 * - `headed`: taken; the endpoint has given its head, which is sent at the end of the tick at the
 *   latest.
 * - `early`: taken before the endpoint has given its head; the wire has one of ours.
 * - `running`: taken, and the wire has a head: the endpoint writes its body.
 * - `ended`, `broken`: taken, and the endpoint has called `end` or `destroy`.
 *
 * Whether the socket is still open (`CapturedWire`) and who hears of its close (`DeferredEvents`)
 * may change in any phase.
 */
export type CapturePhase =
  'undecided' | 'untaken' | 'passed' | 'headed' | 'early' | 'running' | 'ended' | 'broken'

/**
 * - `leave`: the response is left alone.
 * - `take`: the response is taken when its head is due. `takeEarly`: it is taken before.
 * - `begin`: the head is sent; or, in `early`, the endpoint gives a head that is not sent.
 * - `stepAside`: the first bytes show that the response was not ours to take.
 * - `end`, `break`: the endpoint calls `end`, or destroys the response. Before the head, `break` is
 *   a step only of a response that a capture hears from the beginning.
 */
export type CaptureStep = 'leave' | 'take' | 'takeEarly' | 'begin' | 'stepAside' | 'end' | 'break'

const TAKEN = { end: 'ended', break: 'broken' } as const

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
  headed: { ...TAKEN, begin: 'running', stepAside: 'untaken' },
  early: { ...TAKEN, begin: 'running' },
  running: TAKEN,
  ended: {},
  broken: {}
}

/** The phase after a step; `undefined`: the step has no effect in this phase. */
export function phaseAfter(phase: CapturePhase, step: CaptureStep): CapturePhase | undefined {
  return TRANSITIONS[phase][step]
}

/** Whether the endpoint writes to a stream, and not to the wire. */
export function isCaptured(phase: CapturePhase): boolean {
  return phase !== 'undecided' && phase !== 'untaken' && phase !== 'passed'
}
