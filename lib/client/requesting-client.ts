// The official SDK's client, as far as the functions here use it.

/** The official SDK's `Client`, version 1 or 2. */
export interface RequestingClient {
  request(...args: never[]): Promise<unknown>
}

/** A result as it was received; it is checked only if a schema is given. */
export interface ResumableResult {
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
  readonly [member: string]: unknown
}

/**
 * A schema that accepts everything. Version 1 of the SDK calls `safeParse`, version 2 takes a
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
