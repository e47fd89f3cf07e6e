// Through HAProxy, with the README's configuration: it takes a prefix off, and bears four seconds of
// silence.

import { describe } from '@jest/globals'
import { describeThrough } from './behaviour.js'
import { programs, startHaproxy } from './configurations.js'

const describeWithHaproxy =
  programs.haproxy === undefined && !process.env['CI'] ? describe.skip : describe

describeWithHaproxy('through HAProxy (SKIPPED without it, but not in CI)', () => {
  describeThrough(startHaproxy, daemon => daemon.output())
})
