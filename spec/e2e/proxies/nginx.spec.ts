// Through nginx, with the README's configuration: it buffers by default, takes a prefix off, and
// bears four seconds of silence.

import { describe } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describeThrough } from './behaviour.js'
import { ACCESS_LOG, programs, startNginx, type Change } from './configurations.js'
import type { Daemon } from './daemon.js'

const logOf = ({ folder }: Daemon): string => readFileSync(join(folder, ACCESS_LOG), 'utf8')

const VARIANTS: [string, Change[], string[]?][] = [
  ['HTTP/1.1', []],
  ['HTTP/1.0', [['proxy_http_version 1.1;', 'proxy_http_version 1.0;']]],
  [
    'HTTP/1.1 and compressed events',
    [['gzip on;', 'gzip on; gzip_min_length 0; gzip_types text/event-stream;']],
    ['back']
  ]
]

const describeWithNginx =
  programs.nginx === undefined && !process.env['CI'] ? describe.skip : describe

describeWithNginx('through nginx (SKIPPED without it, but not in CI)', () => {
  describe.each(VARIANTS)('over %s', (_name, changes, countable) =>
    describeThrough(startNginx, logOf, changes, countable)
  )
})
