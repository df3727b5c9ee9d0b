/* version.h - which release this is: convoy --version, records and pages tell it. */
#ifndef CONVOY_BASE_VERSION_H
#define CONVOY_BASE_VERSION_H

#define CONVOY_VERSION "0.1.0"
#endif
