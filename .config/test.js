// Lint, types, build and specs, with two cores never idle: lint and types get what the specs leave,
// which wait for wires and processes a tenth of their time.
import { constants } from 'node:os'
import { check, foreground } from './check.js'

const checks = ['lint', 'types']
const checking = checks.map(script => check(script, constants.priority.PRIORITY_LOW))
const isBuilt = await check('build')
const specsPassed = isBuilt && (await foreground('spec', process.argv.slice(2)))
const passed = await Promise.all(checking)

// What they printed is hundreds of lines above.
const failed = checks.filter((_, i) => !passed[i])
if (failed.length > 0) console.error(`Also failed, see above: ${failed.join(', ')}`)
if (failed.length > 0 || !specsPassed) process.exitCode = 1
