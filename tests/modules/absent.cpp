// SPDX-License-Identifier: Apache-2.0
//
// A library that is missing where a module needs it; and, as a module, one that is none.
namespace ovl::test {
int absent();
int absent() { return 1; }
}  // namespace ovl::test
