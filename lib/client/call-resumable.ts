// Repeats a request with resume tokens until its result is there: the client's side of the Resuming
// draft.
import { checkCall, checkOption, isTime, NUMBER } from './check-arguments.js'
import { LONGEST_TIMEOUT, now } from '../protocol/clock.js'
import { ASYNC_PREFERENCE } from '../protocol/respond-async.js'
import { isPassing } from './retrying.js'
import { abortWith, pause, untilAborted } from './waiting.js'
import {
  anything,
  type CallOptions,
  type RequestingClient,
  type ResultSchema,
  type ResumableResult,
  type Sender
} from './requesting-client.js'
import { objectIn } from '../protocol/json-rpc.js'
import { askingOf, CallOnWire, hasWire, watchRequest } from './call-on-wire.js'

/** What a client sends: a method and its parameters. */
export interface ResumableRequest {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** Options of {@link callResumable}. */
export interface CallResumableOptions<Result extends object = ResumableResult> extends CallOptions {
  /**
   * Called with each part of the result but the last, which is what the call returns. It is
   * awaited; if it throws or rejects, the call ends with that error. Default: none.
   */
  readonly onPartial?: ((result: Result) => unknown) | undefined
  /**
   * Milliseconds for which the server should hold one request open, 60,000 at the most; over HTTP
   * in whole seconds, rounded down. Default: the server's choice.
   */
  readonly wait?: number | undefined
  /** Ends the call: no further request is made, and the one that is open is cancelled. */
  readonly signal?: AbortSignal | undefined
  /**
   * Milliseconds for which one request is waited for. Default: the SDK's 60,000; with `wait`, ten
   * seconds more than that.
   */
  readonly timeout?: number | undefined
  /** After more than this many requests in a row without an answer, the call fails. Default: 5. */
  readonly maxRetries?: number | undefined
  /**
   * A schema for each result, as `client.request` takes it. Parts must pass it, too. Default: none,
   * everything passes.
   */
  readonly resultSchema?: ResultSchema<Result> | undefined
}

type Meta = Readonly<Record<string, unknown>>

/** Milliseconds that an answer may take beyond `wait`, for the way through the network. */
const ON_THE_WAY = 10_000
/** Milliseconds until a failed request is repeated; twice as many with each failure in a row. */
const SHORTEST_PAUSE = 250
/**
 * Milliseconds from one request to the next at least; twice as many with each empty answer in a
 * row.
 */
const LEAST_INTERVAL = 50
const LONGEST_INTERVAL = 1000
const LONGEST_PAUSE = 5000

/**
 * Makes a request that the server may answer in parts, or later: as long as an answer carries a
 * `nextResumeToken`, the request is repeated with that token, and nothing else changed (the
 * Resuming draft). A request with a token runs nothing a second time, so it is made again if its
 * answer was lost; the first request, without a token, is not, unless `resumableFetch` does it.
 * Over HTTP it asks for tokens in a header (`Prefer: respond-async`), on other wires by
 * `express-mcp-streams/wait` in `_meta`. The first request has none of the draft's own members.
 *
 * ```ts
 * const result = await callResumable(client, { method: 'tools/call', params: { name: 'report' } },
 * { wait: 4000 })
 * ```
 *
 * The type of the result is that of `resultSchema`, or the one that the caller names; without a
 * schema, nothing checks it.
 *
 * @throws what `client.request` throws; {@link TypeError} for a bad option.
 */
export async function callResumable<Result extends object = ResumableResult>(
  client: RequestingClient,
  request: ResumableRequest,
  options: CallResumableOptions<Result> = {}
): Promise<Result> {
  checkCall(CALLER, [client, request, options], 'method')
  const {
    onPartial = () => undefined,
    wait,
    signal,
    timeout,
    maxRetries = 5,
    resultSchema = anything(),
    ...others
  } = options
  checkOption(CALLER, 'onPartial', typeof onPartial === 'function', 'a function')
  for (const [name, value] of Object.entries({ wait, timeout, maxRetries }))
    checkOption(CALLER, name, isTime(value), NUMBER)
  const call = new CallOnWire(
    wait === undefined ? ASYNC_PREFERENCE : `${ASYNC_PREFERENCE}, wait=${Math.floor(wait / 1000)}`
  )
  const requestTimeout = timeout ?? (wait === undefined ? undefined : wait + ON_THE_WAY)
  let resumeToken: string | undefined

  async function ask(): Promise<Result> {
    const { method, params } = request
    const asking = askingOf(client)
    const _meta = {
      ...(params?.['_meta'] as Meta | undefined),
      // On wires without headers.
      ...(asking === 'meta' && { [WAIT]: wait ?? null }),
      ...(resumeToken !== undefined && { resumeToken }),
      ...(hasWire(client) && call.mark)
    }
    const { controller, release } = abortWith(signal)
    const unwatch = watchRequest(client, call)
    try {
      return await (client as Sender).request(
        { method, params: { ...params, _meta } },
        resultSchema,
        {
          ...others,
          ...(asking === 'header' && { headers: withPreference(others['headers'], call.prefer) }),
          ...(requestTimeout !== undefined && {
            timeout: Math.min(requestTimeout, LONGEST_TIMEOUT)
          }),
          signal: controller.signal
        }
      )
    } finally {
      unwatch()
      release()
    }
  }

  for (let failures = 0, empty = 0; ;) {
    const began = now()
    signal?.throwIfAborted()
    let result: Result
    try {
      result = await ask()
    } catch (error) {
      if (
        signal?.aborted ||
        resumeToken === undefined ||
        !mayPass(error) ||
        ++failures > maxRetries
      )
        throw error
      await pause(Math.min(SHORTEST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE), signal)
      continue
    }
    failures = 0
    const next = objectIn(objectIn(result)['_meta'])['nextResumeToken']
    // [Resuming] Clients SHOULD treat an absent nextResumeToken as the completion of the operation.
    if (typeof next !== 'string') return result
    resumeToken = next
    const isPart = hasContent(result)
    if (isPart) await untilAborted(signal, Promise.resolve(onPartial(result)))
    empty = isPart ? 0 : empty + 1
    const interval = Math.min(LEAST_INTERVAL * 2 ** empty, LONGEST_INTERVAL)
    await pause(Math.max(0, began + interval - now()), signal)
  }
}

const CALLER = 'callResumable'
const WAIT = 'express-mcp-streams/wait'

/** The headers of one request, as a record: version 2 of the SDK takes nothing else. */
function withPreference(given: unknown, preference: string): Readonly<Record<string, string>> {
  const headers = new Headers(given as Record<string, string> | undefined)
  headers.append('Prefer', preference)
  return Object.fromEntries(headers)
}

/** The code of version 1 of the SDK for a request without an answer in time. */
const REQUEST_TIMEOUT = -32001
/** Codes of version 2 of the SDK that are not about the network: another try does not help. */
const OF_CLIENT = /^(?:INVALID|UNSUPPORTED|NOT|CONNECTION_CLOSED)/

/**
 * Whether an error may come from the network, so that the same request may succeed. An error of the
 * server about the request itself would be the same again.
 */
function mayPass(error: unknown): boolean {
  const {
    code,
    status = code,
    issues
  } = Object(error) as { code?: unknown; status?: unknown; issues?: unknown }
  if (typeof status === 'string') return !OF_CLIENT.test(status)
  if (typeof status !== 'number') return issues === undefined
  return status === REQUEST_TIMEOUT || isPassing(status)
}

/** Whether a result has anything but its token: a member that is not empty. */
function hasContent(result: object): boolean {
  return Object.entries(result).some(
    ([name, value]) => !OF_EVERY_RESULT.includes(name) && !isEmpty(value)
  )
}

const OF_EVERY_RESULT = ['_meta', 'resultType', 'ttlMs', 'cacheScope']

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every(isEmpty)
}
