// How far an endpoint can come with its response, step by step.

import { expect, it } from '@jest/globals'
import {
  type CapturePhase,
  type CaptureStep,
  isCaptured,
  phaseAfter
} from '../../../lib/endpoint/capture-phase.js'

const walk = (...steps: CaptureStep[]): (CapturePhase | undefined)[] => {
  let phase: CapturePhase | undefined = 'undecided'
  return steps.map(step => {
    const after: CapturePhase | undefined = phase && phaseAfter(phase, step)
    phase = after ?? phase
    return after
  })
}

it('a response that is taken has its head, its body and its end, once each', () => {
  expect(walk('take', 'take', 'begin', 'begin', 'end', 'end', 'break')).toEqual([
    'headed',
    undefined,
    'running',
    undefined,
    'ended',
    undefined,
    undefined
  ])
})

it('a response that is taken before its head has it from the endpoint later', () => {
  expect(walk('takeEarly', 'take', 'begin', 'break')).toEqual([
    'early',
    undefined,
    'running',
    'broken'
  ])
})

it('a response may turn out not to be ours for as long as the endpoint writes', () => {
  for (const steps of [['take'], ['take', 'begin'], ['takeEarly']] as const)
    expect(walk(...steps, 'stepAside').at(-1)).toBe('untaken')
  expect(walk('take', 'begin', 'end', 'stepAside').at(-1)).toBe(undefined)
})

it('a response that was left alone is never taken, and only its end is of interest', () => {
  expect(walk('leave', 'take', 'takeEarly', 'break', 'end', 'take')).toEqual([
    'untaken',
    undefined,
    undefined,
    undefined,
    'passed',
    undefined
  ])
})

it('a response is captured from where it is taken on', () => {
  expect(
    ['undecided', 'untaken', 'passed'].map(phase => isCaptured(phase as CapturePhase))
  ).toEqual([false, false, false])
  expect(
    ['headed', 'early', 'running', 'ended', 'broken'].map(phase =>
      isCaptured(phase as CapturePhase)
    )
  ).toEqual([true, true, true, true, true])
})
