# What `cmake --install` installs, and the Debian packages of it: `cpack` in the build's folder.
include(CMakePackageConfigHelpers)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS tapestry RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tapestry_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
foreach(level IN LISTS TAPESTRY_LEVELS)
  install(TARGETS tapestry_engine_${level}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${folder_of_${level}} NAMELINK_SKIP)
endforeach()
# Earlier versions installed a library for each level, which the loader would prefer.
install(CODE "file(GLOB stale \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/*/libtapestry.so.0\")
  foreach(library IN LISTS stale)
    file(REMOVE \${library})
  endforeach()")
install(TARGETS tapestry_cairo tapestry_linear_algebra LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tapestry)
foreach(mpi IN LISTS mpi_plugins)
  install(TARGETS tapestry_${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tapestry COMPONENT ${mpi})
endforeach()
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/tapestry
        FILES_MATCHING PATTERN "*.toml")
list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
install(CODE "execute_process(COMMAND ${emulator} \"$<TARGET_FILE:tapestry>\" manual  # its page
                              OUTPUT_FILE \"${CMAKE_BINARY_DIR}/tapestry.1\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${CMAKE_BINARY_DIR}/tapestry.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES commands/completion.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tapestry)
# For Python, in the folder where Debian's looks for modules.
install(FILES interface/tapestry.py DESTINATION lib/python3/dist-packages)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# For other programs: headers, the name to link to, and a CMake package.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
foreach(folder autograd layers optim data train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapestry FILES_MATCHING PATTERN "*.hpp"
          PATTERN configs EXCLUDE PATTERN pictures EXCLUDE PATTERN public EXCLUDE
          PATTERN guide EXCLUDE PATTERN templates EXCLUDE PATTERN page EXCLUDE
          REGEX "/train/(model|training)[.]hpp$" EXCLUDE)
endforeach()
# The stable ones: <tapestry/model.hpp>, <tapestry/ops.hpp>, …, and for C <tapestry/tapestry.h>
install(FILES model.hpp training.hpp interface/tapestry.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapestry)
install(DIRECTORY public/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapestry)
install(FILES ${CMAKE_BINARY_DIR}/tapestry_commit.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapestry)
install(TARGETS tapestry_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_ONLY)
install(FILES ${CMAKE_BINARY_DIR}/libtapestry-engine.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Own ops are compiled with flags of the engine, for the processor of a level.
set(march_flags "-ffp-contract=off -fvisibility-inlines-hidden")
file(WRITE ${CMAKE_BINARY_DIR}/tapestry-config.cmake.in [[
@PACKAGE_INIT@
set(tapestry_known_levels @known_levels@)
set(tapestry_levels @TAPESTRY_LEVELS@)  # those of the engines
if(NOT TARGET tapestry::tapestry)
  foreach(name engine tapestry)  # autograd/ and optim/; everything else
    add_library(tapestry::${name} SHARED IMPORTED)
    set_target_properties(tapestry::${name} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES
        "@PACKAGE_CMAKE_INSTALL_INCLUDEDIR@;@PACKAGE_CMAKE_INSTALL_INCLUDEDIR@/tapestry"
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endforeach()
  set_target_properties(tapestry::engine PROPERTIES
    IMPORTED_LOCATION "@PACKAGE_CMAKE_INSTALL_LIBDIR@/libtapestry-engine.so"
    IMPORTED_SONAME libtapestry-engine.so.0
    INTERFACE_LINK_LIBRARIES fmt::fmt)
  set_target_properties(tapestry::tapestry PROPERTIES
    IMPORTED_LOCATION "@PACKAGE_CMAKE_INSTALL_LIBDIR@/libtapestry.so"
    IMPORTED_SONAME libtapestry.so.0
    INTERFACE_LINK_LIBRARIES tapestry::engine)
  # tapestry::march has the flags for own ops, of tapestry_LEVEL. The default is the best level that
  # this machine and an engine have.
  if(NOT tapestry_LEVEL)
    list(GET tapestry_levels 0 tapestry_LEVEL)
    execute_process(COMMAND /lib64/ld-linux-x86-64.so.2 --help OUTPUT_VARIABLE tapestry_loader ERROR_QUIET)
    foreach(tapestry_level IN LISTS tapestry_levels)
      if(NOT CMAKE_CROSSCOMPILING AND tapestry_loader MATCHES "x86-64-${tapestry_level} \\(supported")
        set(tapestry_LEVEL ${tapestry_level})
      endif()
    endforeach()
  elseif(NOT tapestry_LEVEL IN_LIST tapestry_known_levels)
    set(tapestry_FOUND FALSE)
    set(tapestry_NOT_FOUND_MESSAGE
        "tapestry_LEVEL=${tapestry_LEVEL}: no such level; expected one of ${tapestry_known_levels}")
    return()
  endif()
  string(REPLACE " " ";" tapestry_march "@march_flags@")
  if(tapestry_LEVEL MATCHES "^v")
    list(PREPEND tapestry_march -march=x86-64-${tapestry_LEVEL})
  endif()
  add_library(tapestry::march INTERFACE IMPORTED)
  set_target_properties(tapestry::march PROPERTIES INTERFACE_COMPILE_OPTIONS "${tapestry_march}")
endif()
include(CMakeFindDependencyMacro)
find_dependency(fmt)  # from here on PACKAGE_PREFIX_DIR is its own
foreach(tapestry_component IN LISTS tapestry_FIND_COMPONENTS)
  set(tapestry_${tapestry_component}_FOUND FALSE)
  if(tapestry_component STREQUAL xtensor)  # what autograd/xtensor.hpp needs
    find_package(xtensor QUIET)
    set(tapestry_xtensor_FOUND ${xtensor_FOUND})
  endif()
  if(tapestry_FIND_REQUIRED_${tapestry_component} AND NOT tapestry_${tapestry_component}_FOUND)
    set(tapestry_FOUND FALSE)
    set(tapestry_NOT_FOUND_MESSAGE "No component ${tapestry_component}: there is xtensor, which \
needs the package of that name (Debian: libxtensor-dev)")
  endif()
endforeach()
if(tapestry_xtensor_FOUND AND NOT TARGET tapestry::xtensor)
  add_library(tapestry::xtensor INTERFACE IMPORTED)
  set_target_properties(tapestry::xtensor PROPERTIES
    INTERFACE_LINK_LIBRARIES "tapestry::tapestry;xtensor")
endif()
]])
configure_package_config_file(
  ${CMAKE_BINARY_DIR}/tapestry-config.cmake.in ${CMAKE_BINARY_DIR}/tapestry-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tapestry-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tapestry-config.cmake ${CMAKE_BINARY_DIR}/tapestry-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)

# The same for pkg-config, which has the flags of each level as a variable: march_v3.
file(RELATIVE_PATH prefix_of_packages "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" prefix_of_packages "${prefix_of_packages}")
set(march_of_levels "")
foreach(level IN LISTS known_levels)
  set(processor "")
  if(level MATCHES "^v")
    set(processor "-march=x86-64-${level} ")
  endif()
  string(APPEND march_of_levels "march_${level}=${processor}${march_flags}\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tapestry.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@prefix_of_packages@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
@march_of_levels@
Name: tapestry
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Requires: fmt
Cflags: -I${includedir} -I${includedir}/tapestry
Libs: -L${libdir} -ltapestry -ltapestry-engine
]])
install(FILES ${CMAKE_BINARY_DIR}/tapestry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# cpack: tapestry_<version>_amd64.deb and libtapestry-dev_<version>_amd64.deb.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Tapestry developers <tapestry@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS  # the engine, which the library needs
    ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}/${folder_of_${lowest_level}})
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tapestry)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "one program with its configs, its library, and an engine for each
 level of x86-64, of which the best that the processor has is used.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS python3-numpy)  # for the Python module
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libopenblas0-openmp")  # the OpenBLAS whose threads are OpenMP's
file(WRITE ${CMAKE_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/triggers)
foreach(mpi openmpi mpich)               # tapestry-openmpi_*.deb and the like, a plug-in each
  string(TOUPPER ${mpi} component)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME tapestry-${mpi})
  set(CPACK_DEBIAN_${component}_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_${component}_DESCRIPTION "trains on several machines, by this MPI")
  set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "tapestry (= ${PROJECT_VERSION})")
endforeach()
set(CPACK_DEBIAN_OPENMPI_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_MPICH_PACKAGE_RECOMMENDS mpich)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtapestry-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "headers and packages for CMake and pkg-config, for C++ programs on its library")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "tapestry (= ${PROJECT_VERSION}), libfmt-dev, libxsimd-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libxtensor-dev)  # for the CMake component xtensor
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
include(CPack)

# For other Linux systems, of a build of all levels: `ninja portable`, into packages/ of the build's folder.
if(TAPESTRY_LEVELS STREQUAL "v2;v3;v4")
  set(portable ${CMAKE_BINARY_DIR}/packages/tapestry-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  add_custom_target(portable DEPENDS tapestry
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/tree ${CMAKE_BINARY_DIR} ${portable}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/archive ${portable}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/wheel ${portable} ${PROJECT_SOURCE_DIR})
endif()
