import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["out/", "dist/", "node_modules/", "src/proto/", "tests/package/typed.ts"] },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "max-lines": ["error", 450],
      "max-lines-per-function": ["error", 70],
      "max-len": ["error", { code: 100 }],
      "@typescript-eslint/explicit-function-return-type": ["error", { allowExpressions: true }],
      "@typescript-eslint/consistent-type-exports": "error",
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      // Its remedy, `!`, is forbidden.
      "@typescript-eslint/non-nullable-type-assertion-style": "off",
      // The reason of an AbortSignal, with which a cancelled call is rejected, may be anything.
      "@typescript-eslint/prefer-promise-reject-errors": [
        "error",
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      // `describe` and `test` of node:test return promises that the runner awaits.
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            { from: "package", package: "node:test", name: ["describe", "test", "it", "suite"] },
          ],
        },
      ],
    },
  },
  {
    // A block of `describe` is a chapter, not a function.
    files: ["tests/**/*.ts"],
    rules: { "max-lines-per-function": "off" },
  },
);
