// Types of middleware that comes without any, as far as the specs use it; and Express 4, under its
// alias, as Express 5.

declare module 'express4' {
  export { default } from 'express'
}

declare module 'compression' {
  import type { RequestHandler } from 'express'
  export default function compression(options?: { threshold?: number }): RequestHandler
}

declare module 'cors' {
  import type { RequestHandler } from 'express'
  export default function cors(options?: { exposedHeaders?: string[] }): RequestHandler
}

declare module 'morgan' {
  import type { RequestHandler } from 'express'
  export default function morgan(
    format: string,
    options: { stream: { write(line: string): void } }
  ): RequestHandler
}

declare module 'express-session' {
  import type { RequestHandler } from 'express'
  interface Options {
    store?: MemoryStore
    secret: string
    genid: () => string
    resave: boolean
    saveUninitialized: boolean
  }
  export class MemoryStore {
    all(callback: (error: unknown, sessions: Record<string, unknown>) => void): void
  }
  export default function session(options: Options): RequestHandler
}
