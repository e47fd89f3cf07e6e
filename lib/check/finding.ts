// What a check has found.

/**
 * - `ok`: as it should be.
 * - `failed`: a client will suffer from it.
 * - `unknown`: could not be seen here.
 */
export type Mark = 'ok' | 'failed' | 'unknown'

export interface Finding {
  readonly mark: Mark
  readonly text: string
}

export const ok = (text: string): Finding => ({ mark: 'ok', text })
export const failed = (text: string): Finding => ({ mark: 'failed', text })
export const unknown = (text: string): Finding => ({ mark: 'unknown', text })
