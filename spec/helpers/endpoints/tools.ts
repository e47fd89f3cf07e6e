// The tools that the SDK endpoints offer, written once for both SDKs; each SDK brings its own way
// to reach the client.

import { z } from 'zod'
import type { ToolLog } from './tool-log.js'
import { sleep } from '../sleep.js'

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
   * What the tool `context` calls, with the SDK's own context and with ours; its answer, as JSON, is
   * the tool's. The place to call `currentStream()`.
   */
  onContext?:
    ((args: Record<string, unknown>, context: unknown, tool: ToolContext) => unknown) | undefined
}

export interface Tool {
  name: string
  schema: z.ZodObject
  run(args: Record<string, unknown>, context: ToolContext): Promise<string> | string
}

const key = z.string().default('')

/** Made once: an endpoint without sessions makes a server, and so its tools, for every request. */
const SCHEMAS = {
  count: z.object({
    key,
    n: z.number().default(3),
    /** Characters per message; a list is gone through again and again. */
    size: z.union([z.number(), z.array(z.number()).min(1)]).default(0),
    filler: z.string().min(1).default('x'),
    delayMs: z.number().optional(),
    /** Each step waits for `log.release(key)`. */
    paced: z.boolean().default(false)
  }),
  slow: z.object({ key, ms: z.number() }),
  hang: z.object({ key }),
  fail: z.object({ key }),
  elicit: z.object({ key, message: z.string().default('What is your name?') }),
  context: z.object({ key, args: z.record(z.string(), z.unknown()).default({}) })
}

/**
 * Used by `count` for its i-th message (from 1); exported so that a spec can compute what it
 * expects.
 */
export function countMessage(i: number, size = 0, filler = 'x'): string {
  return `${i}${size > 0 ? ` ${filler.repeat(Math.ceil(size / filler.length)).slice(0, size)}` : ''}`
}

export function createTools({ log, onContext }: ToolOptions): Tool[] {
  const tools: {
    [Name in keyof typeof SCHEMAS]: (
      args: z.infer<(typeof SCHEMAS)[Name]>,
      context: ToolContext,
      call: Call
    ) => Promise<string> | string
  } = {
    count: async ({ key, n, size, filler, delayMs, paced }, context, call) => {
      const sizes = [size].flat()
      for (let i = 1; i <= n; i++) {
        if (delayMs !== undefined) await sleep(delayMs, context.signal)
        if (paced) await log.permit(key)
        const message = countMessage(i, sizes[(i - 1) % sizes.length], filler)
        await report(context, i, n, message)
        call.sent++
      }
      if (paced) await log.permit(key)
      return `counted to ${n}`
    },
    slow: async ({ ms }, { signal }) => {
      await sleep(ms, signal)
      return 'slow but sure'
    },
    hang: (_args, { signal }) =>
      new Promise((_resolve, reject) => {
        const stop = () => reject(new Error('aborted'))
        if (signal.aborted) stop()
        else signal.addEventListener('abort', stop, { once: true })
      }),
    fail: () => {
      throw new Error('this tool always fails')
    },
    elicit: async ({ message }, { elicit }) => JSON.stringify(await elicit(message)),
    context: async ({ args }, tool) =>
      JSON.stringify((await onContext?.(args, tool.context, tool)) ?? null)
  }
  return Object.entries(SCHEMAS).map(([name, schema]) => ({
    name,
    schema,
    run: (args, context) =>
      log.run({ tool: name, key: args['key'] as string, signal: context.signal }, call =>
        (tools[name as keyof typeof SCHEMAS] as Run)(args, context, call)
      )
  }))
}

type Call = Parameters<Parameters<ToolLog['run']>[1]>[0]
type Run = (
  args: Record<string, unknown>,
  context: ToolContext,
  call: Call
) => Promise<string> | string

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
