// A client that others make requests through: that of the official SDK.

/** A client that sends JSON-RPC requests: that of the official SDK, version 1 or 2. */
export interface RequestingClient {
  request(...args: never[]): Promise<unknown>
}

/** A result, as it came: no schema is checked unless one is given. */
export interface ResumableResult {
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
  readonly [member: string]: unknown
}

/**
 * A schema that everything passes: version 1 of the SDK asks for `safeParse`, version 2 for a
 * Standard Schema.
 */
export const ANYTHING = {
  safeParse: (data: unknown) => ({ success: true, data }),
  '~standard': {
    version: 1,
    vendor: 'express-mcp-streams',
    validate: (value: unknown) => ({ value })
  }
}
