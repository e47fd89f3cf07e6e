// The methods of a response that are patched, as they stand underneath.
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'

/** What `writeHead` is called with. */
export type HeadArguments = [
  status: number,
  reason?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
  headers?: OutgoingHttpHeaders | OutgoingHttpHeader[]
]

/**
 * What stands underneath the patches. Overloads are of no use here: arguments are handed on as they
 * came.
 */
export interface Originals {
  readonly writeHead: (this: ServerResponse, ...args: unknown[]) => ServerResponse
  readonly write: (this: ServerResponse, ...args: unknown[]) => boolean
  readonly end: (this: ServerResponse, ...args: unknown[]) => ServerResponse
  readonly flushHeaders: (this: ServerResponse) => void
  readonly setHeader: (
    this: ServerResponse,
    name: string,
    value: OutgoingHttpHeader
  ) => ServerResponse
  readonly getHeader: (this: ServerResponse, name: string) => OutgoingHttpHeader | undefined
  readonly destroy: (this: ServerResponse, error?: Error) => ServerResponse
  readonly _implicitHeader: (this: ServerResponse) => void
}

const PATCHED = [
  'writeHead',
  'write',
  'end',
  'flushHeaders',
  'setHeader',
  'getHeader',
  'destroy',
  '_implicitHeader'
] as const

export function originalsOf(res: ServerResponse): Originals {
  const { writeHead, write, end, flushHeaders, setHeader, getHeader, destroy, _implicitHeader } =
    res as unknown as Originals
  return { writeHead, write, end, flushHeaders, setHeader, getHeader, destroy, _implicitHeader }
}

/** Takes the patches out again, where nobody has patched on top of them. */
export function restore(res: ServerResponse, originals: Originals, patches: Originals): void {
  const methods = res as unknown as Record<keyof Originals, unknown>
  for (const name of PATCHED) if (methods[name] === patches[name]) methods[name] = originals[name]
}
