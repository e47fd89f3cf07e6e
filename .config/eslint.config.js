// Lint rules: which way imports may point between the folders of lib/, and what the library never
// does.
import js from '@eslint/js'
import { builtinModules } from 'node:module'
import { defineConfig } from 'eslint/config'
import importX, { createNodeResolver } from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'

const builtins = builtinModules.map(name => ({
  name,
  message: 'This folder is free of Node: web globals only.'
}))
const noNode = { regex: '^node:', message: 'This folder is free of Node: web globals only.' }
const noNodeDoor = {
  regex: '^\\./node/',
  message: 'The door for Node imports the others, never the other way round.'
}
const noGlobals = [
  'Buffer',
  'process',
  'setImmediate',
  'clearImmediate',
  'global',
  '__dirname',
  '__filename',
  'require'
]

// Arrows run one way: protocol <- streams <- readers <- http <- endpoint <- routes <- features, resources <- middleware; access <- http;
// routes <- backplane <- redis; routes <- wires; protocol <- client; access <- inspector; protocol, access <- check, proxy <- command.
const outside = [
  { regex: '(^|/)(spec|examples)/', message: 'lib/ never imports its specs or its examples.' },
  { regex: '^express-mcp-streams', message: 'Inside lib/ import the file, not the package.' }
]
const arrow = (folder, mayImport) => {
  // Of `features/` each folder counts for itself.
  const [parent, name] = folder.split('/')
  const up = name === undefined ? '' : '\\.\\./'
  const allowed = mayImport.map(other => {
    const end = other.endsWith('.js') ? other : `${other}/`
    return end.startsWith(`${parent}/`) ? end.slice(parent.length + 1) : up + end
  })
  const reach =
    mayImport.length === 0 ? 'nothing outside itself' : `${mayImport.join(' and ')} only`
  return {
    regex: allowed.length === 0 ? '^\\.\\./' : `^\\.\\./(?!${allowed.join('|')})`,
    message: `lib/${folder} imports ${reach}.`
  }
}
const imports = (patterns, paths = []) => ({
  '@typescript-eslint/no-restricted-imports': [
    'error',
    { patterns: [...outside, ...patterns], paths }
  ]
})

const noDetours = [
  {
    selector: 'ImportExpression',
    message: 'Import statically: a dynamic import escapes the one-way rule.'
  },
  {
    selector: 'ExportAllDeclaration',
    message: 'Export by name: adding a name to a door is a decision.'
  }
]
// V8 takes such a function for a method of a class in the old style, and makes it in old space: it
// stays until a full collection, and with it all that it closes over.
const noOldFunctions = [':function.right', 'TSAsExpression.right > :function'].map(right => ({
  selector: `:function AssignmentExpression[left.type="MemberExpression"] > ${right}`,
  message: 'Name it first: a function that is assigned to a property where it is made is born old.'
}))

export default defineConfig(
  // The build, which runs at the same time, writes its configuration beside itself for a moment.
  { ignores: ['dist/', 'coverage/', 'node_modules/', '.config/*.bundled_*'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  tseslint.configs.recommended,
  {
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none' }
      ]
    }
  },
  {
    // What tsc checks in TypeScript: a name that nobody defined.
    files: ['**/*.{js,cjs,mjs}'],
    languageOptions: {
      globals: Object.fromEntries(Object.getOwnPropertyNames(globalThis).map(name => [name, false]))
    },
    rules: { 'no-undef': 'error' }
  },
  {
    files: ['**/*.ts', '**/*.cts'],
    rules: { 'no-undef': 'off' }
  },
  {
    files: ['**/*.cjs', '**/*.cts'],
    languageOptions: { globals: { require: false, module: false, exports: true } },
    rules: { '@typescript-eslint/no-require-imports': 'off' }
  },
  {
    files: ['lib/**/*.ts'],
    extends: [tseslint.configs.recommendedTypeCheckedOnly],
    plugins: { 'import-x': importX },
    languageOptions: {
      parserOptions: {
        project: ['./.config/tsconfig.lint.json', './lib/inspector/page/tsconfig.json'],
        tsconfigRootDir: process.cwd()
      }
    },
    settings: {
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts'] },
      // Built in (`tsup.config.js`), and so no dependencies of who installs the package.
      'import-x/core-modules': ['mime', 'nanoid', 'obug'],
      'import-x/resolver-next': [createNodeResolver({ extensionAlias: { '.js': ['.ts', '.js'] } })]
    },
    rules: {
      ...imports([]),
      'import-x/no-cycle': 'error',
      'import-x/no-default-export': 'error',
      'import-x/no-extraneous-dependencies': [
        'error',
        { devDependencies: false, peerDependencies: false }
      ],
      'no-console': 'error',
      'no-restricted-syntax': ['error', ...noDetours],
      '@typescript-eslint/consistent-type-imports': [
        'error',
        { fixStyle: 'separate-type-imports' }
      ],
      '@typescript-eslint/no-this-alias': ['error', { allowedNames: ['tap'] }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true }
      ]
    }
  },
  {
    // What is made for each request.
    files: ['lib/{backplane,endpoint,features,http,readers,routes,streams,wires}/**'],
    rules: { 'no-restricted-syntax': ['error', ...noDetours, ...noOldFunctions] }
  },
  {
    // Who patches a response or a request keeps its methods, to call them later on their own object.
    files: ['lib/http/**'],
    rules: { '@typescript-eslint/unbound-method': 'off' }
  },
  {
    files: ['lib/protocol/**'],
    rules: imports([noNode, arrow('protocol', [])], builtins)
  },
  {
    files: ['lib/streams/**'],
    rules: imports([noNode, arrow('streams', ['protocol'])], builtins)
  },
  {
    files: ['lib/readers/**'],
    rules: imports([arrow('readers', ['protocol', 'streams'])])
  },
  {
    files: ['lib/access/**'],
    rules: imports([arrow('access', ['protocol'])])
  },
  {
    files: ['lib/http/**'],
    rules: imports([arrow('http', ['access', 'protocol', 'readers', 'streams'])])
  },
  {
    files: ['lib/endpoint/**'],
    rules: imports([arrow('endpoint', ['access', 'http', 'protocol', 'readers', 'streams'])])
  },
  {
    files: ['lib/features/event-store/**'],
    rules: imports([arrow('features/event-store', ['endpoint', 'http', 'protocol', 'streams'])])
  },
  {
    files: ['lib/features/hand-off/**'],
    rules: imports([
      arrow('features/hand-off', ['endpoint', 'http', 'protocol', 'routes', 'streams'])
    ])
  },
  {
    files: ['lib/features/idempotency/**'],
    rules: imports([
      arrow('features/idempotency', ['access', 'endpoint', 'http', 'protocol', 'routes', 'streams'])
    ])
  },
  {
    files: ['lib/features/listen/**'],
    rules: imports([arrow('features/listen', ['endpoint', 'http', 'routes', 'streams'])])
  },
  {
    files: ['lib/features/progress/**'],
    rules: imports([arrow('features/progress', ['endpoint', 'protocol', 'streams'])])
  },
  {
    files: ['lib/features/resume-tokens/**'],
    rules: imports([
      arrow('features/resume-tokens', [
        'access',
        'endpoint',
        'http',
        'protocol',
        'readers',
        'streams'
      ])
    ])
  },
  {
    files: ['lib/features/slow-answers/**'],
    rules: imports([
      arrow('features/slow-answers', ['endpoint', 'http', 'protocol', 'readers', 'streams'])
    ])
  },
  {
    files: ['lib/features/streams-draft/**'],
    rules: imports([
      arrow('features/streams-draft', [
        'endpoint',
        'http',
        'protocol',
        'readers',
        'routes',
        'streams'
      ])
    ])
  },
  {
    files: ['lib/features/tasks/**'],
    rules: imports([
      arrow('features/tasks', [
        'access',
        'features/resume-tokens',
        'endpoint',
        'http',
        'options',
        'protocol',
        'readers',
        'streams',
        'index.js'
      ])
    ])
  },
  {
    files: ['lib/resources/**'],
    rules: imports([
      arrow('resources', [
        'access',
        'endpoint',
        'http',
        'options',
        'protocol',
        'readers',
        'streams',
        'index.js'
      ])
    ])
  },
  {
    files: ['lib/routes/**'],
    rules: imports([
      arrow('routes', ['access', 'endpoint', 'http', 'protocol', 'readers', 'streams'])
    ])
  },
  {
    // What is behind another entry point comes with the value of an option (`options/part.ts`).
    files: ['lib/*.ts'],
    rules: imports([
      {
        regex:
          '^\\./(?:backplane|check|client|command|features/cookie|features/sessions|features/tasks|inspector|proxy|redis|resources|wires)/',
        message: 'The main entry point loads no other.'
      }
    ])
  },
  {
    files: ['lib/features/sessions/**'],
    rules: imports([
      arrow('features/sessions', [
        'access',
        'endpoint',
        'http',
        'options',
        'protocol',
        'streams',
        'index.js'
      ])
    ])
  },
  {
    files: ['lib/backplane/**'],
    rules: imports([
      arrow('backplane', [
        'access',
        'endpoint',
        'http',
        'options',
        'protocol',
        'routes',
        'streams',
        'index.js'
      ])
    ])
  },
  {
    files: ['lib/redis/**'],
    rules: imports([arrow('redis', ['backplane'])])
  },
  {
    files: ['lib/features/cookie/**'],
    rules: imports([
      arrow('features/cookie', ['access', 'endpoint', 'http', 'options', 'index.js'])
    ])
  },
  {
    files: ['lib/options/**'],
    rules: imports([
      arrow('options', ['access', 'features/resume-tokens', 'endpoint', 'protocol', 'streams'])
    ])
  },
  {
    files: ['lib/wires/**'],
    rules: imports(
      [
        noNode,
        arrow('wires', [
          'access',
          'endpoint',
          'features/resume-tokens',
          'options',
          'protocol',
          'routes',
          'streams',
          'index.js'
        ])
      ],
      builtins
    )
  },
  {
    // A command of its own: what it has to say it prints.
    files: ['lib/check/**'],
    rules: { ...imports([arrow('check', ['access', 'protocol'])]), 'no-console': 'off' }
  },
  {
    // It uses the middleware as applications do.
    files: ['lib/proxy/**'],
    rules: imports([
      arrow('proxy', [
        'access',
        'features/cookie',
        'features/sessions',
        'index.js',
        'protocol',
        'redis',
        'features/tasks'
      ])
    ])
  },
  {
    // It sees what applications can see.
    files: ['lib/inspector/**'],
    rules: imports([arrow('inspector', ['access', 'index.js'])])
  },
  {
    // For browsers; of the rest it knows what it is told.
    files: ['lib/inspector/page/**'],
    rules: {
      ...imports([
        noNode,
        {
          regex: '^(?!\\./|\\.\\./feed\\.js$)',
          message: 'The page imports its own files, and the type of its news.'
        }
      ]),
      'no-restricted-globals': ['error', ...noGlobals]
    }
  },
  {
    files: ['lib/command/**'],
    rules: { ...imports([arrow('command', ['check', 'proxy'])]), 'no-console': 'off' }
  },
  {
    files: ['lib/client/**'],
    rules: {
      ...imports([noNode, noNodeDoor, arrow('client', ['protocol'])], builtins),
      'no-restricted-globals': ['error', ...noGlobals]
    }
  },
  {
    files: ['lib/client/tasks/**'],
    rules: imports(
      [
        noNode,
        {
          regex: '^\\.\\./\\.\\./(?!protocol/)|^\\.\\./node/',
          message: 'lib/client imports protocol only.'
        }
      ],
      builtins
    )
  },
  {
    // The one part of the client that may use Node: a door of its own, which nothing else imports.
    files: ['lib/client/node/**'],
    rules: { ...imports([]), 'no-restricted-globals': 'off' }
  }
)
