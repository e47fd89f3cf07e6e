// A part that has an entry point of its own can go, folder and all: the rest knows it by the
// interface of a feature alone.

import { describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import ts from 'typescript'
import { root } from './project.js'

const FEATURES = [
  'backplane',
  'features/cookie',
  'features/sessions',
  'features/tasks',
  'inspector',
  'redis',
  'resources',
  'wires'
]
/** Folders of entry points; `.` is the main one. The commands use some as applications do. */
const DOORS = ['.', 'client', 'client/node', ...FEATURES]
/** Doors that are built on another one, and go with it. */
const ON: Readonly<Record<string, string>> = { redis: 'backplane' }

const file = (door: string): string => join(root, 'lib', door, 'index.ts')

function settings(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), path => ts.sys.readFile(path))
  const { compilerOptions } = config as { compilerOptions: object }
  return ts.convertCompilerOptionsFromJson(compilerOptions, root).options
}

/** What the compiler says of all entry points but one, whose folder is not there. */
function errorsWithout(folder: string): string[] {
  const host = ts.createCompilerHost(settings())
  const isGone = (path: string): boolean => path.startsWith(`${join(root, 'lib', folder)}/`)
  const { fileExists, readFile } = host
  host.fileExists = path => !isGone(path) && fileExists(path)
  host.readFile = path => (isGone(path) ? undefined : readFile(path))
  const names = DOORS.filter(door => door !== folder && ON[door] !== folder).map(file)
  const program = ts.createProgram(names, settings(), host)
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
}

describe('without its folder', () => {
  it.each(FEATURES)('%s leaves a project that compiles', folder => {
    expect(errorsWithout(folder)).toEqual([])
  })

  it('the middleware itself would be missed', () => {
    expect(errorsWithout('routes')).not.toEqual([])
  })
})
