// The tools that the SDK endpoints offer, written once for both SDKs; each SDK brings its own way
// to reach the client.

import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { ToolLog } from './tool-log.js'

/** What a tool needs of an SDK, for one call. */
export interface ToolContext {
  signal: AbortSignal
  progressToken: string | number | undefined
  notify(method: string, params: object): Promise<void>
  elicit(message: string): Promise<{ action: string; content?: unknown }>
  /** The SDK's own context object. */
  context: unknown
}

export interface ToolOptions {
  log: ToolLog
  /**
   * What the tool `context` calls; its answer, as JSON, is the tool's. The place to call
   * `currentStream()`.
   */
  onContext?: ((args: Record<string, unknown>, context: unknown) => unknown) | undefined
}

export interface Tool {
  name: string
  /** A raw zod shape; both SDKs take it. */
  schema: z.ZodRawShape
  run(args: Record<string, unknown>, context: ToolContext): Promise<string> | string
}

const key = z.string().default('')

/**
 * Used by `count` for its i-th message (from 1); exported so that a spec can compute what it
 * expects.
 */
export function countMessage(i: number, size = 0, filler = 'x'): string {
  return `${i}${size > 0 ? ` ${filler.repeat(Math.ceil(size / filler.length)).slice(0, size)}` : ''}`
}

export function createTools({ log, onContext }: ToolOptions): Tool[] {
  const countShape = z.object({
    key,
    n: z.number().default(3),
    /** Characters per message; a list is gone through again and again. */
    size: z.union([z.number(), z.array(z.number()).min(1)]).default(0),
    filler: z.string().min(1).default('x'),
    delayMs: z.number().optional(),
    /** Each step waits for `log.release(key)`. */
    paced: z.boolean().default(false)
  })
  const tools: [
    name: string,
    schema: z.ZodRawShape,
    run: (args: Json, context: ToolContext, call: Call) => unknown
  ][] = [
    [
      'count',
      countShape.shape,
      async (
        { key, n, size, filler, delayMs, paced }: z.infer<typeof countShape>,
        context,
        call
      ) => {
        const sizes = [size].flat()
        for (let i = 1; i <= n; i++) {
          if (delayMs !== undefined) await sleep(delayMs, undefined, { signal: context.signal })
          if (paced) await log.permit(key)
          const message = countMessage(i, sizes[(i - 1) % sizes.length], filler)
          await report(context, i, n, message)
          call.sent++
        }
        if (paced) await log.permit(key)
        return `counted to ${n}`
      }
    ],
    [
      'slow',
      { key, ms: z.number() },
      async ({ ms }: { ms: number }, { signal }) => {
        await sleep(ms, undefined, { signal })
        return 'slow but sure'
      }
    ],
    [
      'hang',
      { key },
      (_args, { signal }) =>
        new Promise((_resolve, reject) => {
          const stop = () => reject(new Error('aborted'))
          if (signal.aborted) stop()
          else signal.addEventListener('abort', stop, { once: true })
        })
    ],
    [
      'fail',
      { key },
      () => {
        throw new Error('this tool always fails')
      }
    ],
    [
      'elicit',
      { key, message: z.string().default('What is your name?') },
      async ({ message }: { message: string }, { elicit }) => JSON.stringify(await elicit(message))
    ],
    [
      'context',
      { key, args: z.record(z.string(), z.unknown()).default({}) },
      async ({ args }: { args: Record<string, unknown> }, { context }) =>
        JSON.stringify((await onContext?.(args, context)) ?? null)
    ]
  ]
  return tools.map(([name, schema, run]) => ({
    name,
    schema,
    run: (args, context) =>
      log.run(
        {
          tool: name,
          key: args['key'] as string,
          signal: context.signal,
          context: context.context
        },
        call => run(args, context, call) as Promise<string>
      )
  }))
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Json = any
type Call = Parameters<Parameters<ToolLog['run']>[1]>[0]

/** Progress where the client asked for it, else a log message. */
function report(
  context: ToolContext,
  progress: number,
  total: number,
  message: string
): Promise<void> {
  const { progressToken } = context
  return progressToken === undefined
    ? context.notify('notifications/message', { level: 'info', data: message })
    : context.notify('notifications/progress', { progressToken, progress, total, message })
}
