// Lint, types and build at once: each takes one core for most of its time.
import { check } from './check.js'

const passed = await Promise.all(['lint', 'types', 'build'].map(script => check(script)))
if (passed.includes(false)) process.exitCode = 1
