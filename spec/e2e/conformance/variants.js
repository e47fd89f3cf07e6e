// The example servers under test: which server, with which flags, at which revision, and what the
// middleware must add.

const streams = ['server-accepts-multiple-post-streams', 'server-sse-streams-functional']
const primed = ['server-sse-priming-event', 'server-sse-retry-field']
const polling = [...primed, 'server-sse-disconnect-resume']

/**
 * `proves`: ids of checks that must pass with the middleware, whatever they do bare.
 *
 * @type {{ name: string, server: string, flags: string[], revision: string, proves: string[] }[]}
 */
export const variants = [
  {
    name: 'SDK v1, sessions',
    server: 'everything-v1.js',
    flags: [],
    revision: '2025-11-25',
    proves: [...polling, ...streams]
  },
  {
    // Both would number the events: the middleware has to step aside.
    name: 'SDK v1, its own event store',
    server: 'everything-v1.js',
    flags: ['--event-store'],
    revision: '2025-11-25',
    proves: [...polling, ...streams]
  },
  {
    name: 'SDK v2, sessions',
    server: 'everything-v2.js',
    flags: [],
    revision: '2025-11-25',
    proves: [...polling, ...streams]
  },
  {
    // Without a session id the suite neither resumes nor opens several streams.
    name: 'SDK v2, createMcpHandler, stateless',
    server: 'everything-v2.js',
    flags: ['--stateless'],
    revision: '2025-11-25',
    proves: primed
  },
  {
    name: 'SDK v2, createMcpHandler',
    server: 'everything-v2.js',
    flags: [],
    revision: '2026-07-28',
    proves: ['server-accepts-multiple-post-streams']
  },
  {
    name: 'SDK v2, createMcpHandler, always SSE',
    server: 'everything-v2.js',
    flags: ['--sse'],
    revision: '2026-07-28',
    proves: streams
  }
]
