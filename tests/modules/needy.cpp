// SPDX-License-Identifier: Apache-2.0
namespace ovl::test {
int absent();
int needy();
int needy() { return absent(); }
}  // namespace ovl::test
